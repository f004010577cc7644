# At most 5 requests per 10 seconds from one address.
#
#     gem install redis webrick
#     ruby limited.rb          # then: curl -i http://127.0.0.1:8080/
#
# RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
# when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
# applies it when its Redis is away; this program does when rlproxy is.
# RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.

require "redis"
require "webrick"

LIMIT = 5 # requests
WINDOW = 10 # seconds
FAIL = ENV.fetch("FAIL", "OPEN")

RL = Redis.new(url: "redis://#{ENV.fetch("RLPROXY", "127.0.0.1:6380")}", timeout: 0.25, reconnect_attempts: 0)

# Yields if the request is admitted, or answers it here.
def limited(request, response)
  begin
    key = "ip:#{request.remote_ip}"
    reply = RL.call("RL.SLIDE", key, LIMIT, WINDOW, "FAIL", FAIL)
  rescue Redis::BaseError
    return yield if FAIL == "OPEN"

    response.status = 503
    response.body = "try again later\n"
    return
  end
  allowed, limit, remaining, retry_after = reply
  wait = (retry_after / 1000.0).ceil # seconds, when denied
  response["RateLimit-Policy"] = "\"default\";q=#{LIMIT};w=#{WINDOW}"
  if remaining >= 0 # -1: rlproxy could not ask its Redis
    response["RateLimit"] = "\"default\";r=#{remaining}" + (allowed == 1 ? "" : ";t=#{wait}")
    response["X-RateLimit-Limit"] = limit
    response["X-RateLimit-Remaining"] = remaining
  end
  return yield if allowed == 1

  response["Retry-After"] = wait
  response["X-RateLimit-Reset"] = wait
  response.status = 429
  response.body = "too many requests\n"
end

server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ENV.fetch("PORT", 8080).to_i)
server.mount_proc("/") do |request, response|
  limited(request, response) { response.body = "hello\n" }
end
trap("INT") { server.shutdown }
server.start
