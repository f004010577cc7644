# redis-rb: connects on first use, retries a lost connection once, errors are
# Redis::CommandError. Version 4 speaks RESP2.
require "redis"

LIMIT_ERROR = "ERR limit must be an integer between 1 and 1000000000000; it was '0'"

def options(password)
  # Its own 5 s are too short for a busy machine: after them it repeats the command.
  { host: ENV["RL_HOST"], port: ENV["RL_PORT"].to_i, username: ENV["RL_USERNAME"], password: password, timeout: 20 }.compact
end

def want(ok, got)
  raise "unexpected: #{got.inspect}" unless ok
end

redis = Redis.new(**options(ENV["RL_PASSWORD"]))

checks = {
  connect: -> { want(redis.ping == "PONG", "ping") },

  auth: lambda {
    begin
      Redis.new(**options("wrong")).ping
      want(false, "a wrong password was taken")
    rescue Redis::CannotConnectError, Redis::CommandError => e
      want(e.message.include?("WRONGPASS invalid username-password pair"), e)
    end
  },

  slide: lambda {
    [[1, 2], [1, 1], [1, 0], [0, 0]].each do |allowed, remaining|
      r = redis.call("RL.SLIDE", "slide", 3, 3600)
      want(r.size == 5 && r.first(3) == [allowed, 3, remaining], r)
      want(r[3].zero? == (allowed == 1) && r[4].between?(1, 3_600_001), r)
    end
  },

  counter: lambda {
    r = redis.call("RL.COUNTER", "counter", 10, 3600, "COST", 4)
    want(r.first(4) == [1, 10, 6, 0], r)
  },

  policy: lambda {
    redis.call("RL.POLICY", "SET", "plan", "SLIDE", 3, 3600)
    r = redis.call("RL.CHECK", "plan", "k")
    want(r.first(4) == [1, 3, 2, 0], r)
    plan = Hash[*redis.call("RL.POLICY", "GET", "plan")]
    want(plan["name"] == "plan" && Hash[*plan["limits"].first]["limit"] == 3, plan)
  },

  holds: lambda {
    ask = ->(line) { redis.call(*line.split) }
    2.times { want(ask.("RL.SLIDE once 5 3600 ONCE a").first(4) == [1, 5, 4, 0], "ONCE") }
    r = ask.("RL.RESERVE reserve 100 3600 COST 40 ID a")
    want(r.first(4) == [1, 100, 60, 0], r)
    r = ask.("RL.SETTLE reserve a 15")
    want(r == [1, 15, 25], r)
    r = [ask.("RL.ACQUIRE slots 1 ID a").first, ask.("RL.ACQUIRE slots 1 ID b").first, ask.("RL.RELEASE slots a b")]
    want(r == [1, 0, 1], r)
    r = ask.("RL.SLIDE user 5 3600 AND everyone 9 3600")
    want(r.map { |key| key.first(4) } == [[1, 5, 4, 0], [1, 9, 8, 0]], r)
  },

  pipeline: lambda {
    replies = redis.pipelined { |p| 20.times { p.call("RL.SLIDE", "pipeline", 20, 3600) } }
    want(replies.map { |r| r[2] } == 19.downto(0).to_a, replies)
  },

  transaction: lambda {
    replies = redis.multi { |t| 3.times { t.call("RL.SLIDE", "transaction", 2, 3600) } }
    want(replies.map(&:first) == [1, 1, 0], replies)
  },

  parallel: lambda {
    threads = Array.new(50) do
      Thread.new { Redis.new(**options(ENV["RL_PASSWORD"])).call("RL.SLIDE", "parallel", 30, 3600).first }
    end
    admitted = threads.sum(&:value)
    want(admitted == 30, admitted)
  },

  error: lambda {
    begin
      want(false, redis.call("RL.SLIDE", "error", 0, 3600))
    rescue Redis::CommandError => e
      want(e.message == LIMIT_ERROR, e)
    end
  },

  reconnect: lambda {
    puts "RESTART"
    want($stdin.gets == "OK\n", "no OK")
    deadline = Time.now + 60
    begin
      want(redis.call("RL.SLIDE", "reconnect", 1, 3600).first == 1, "denied")
    rescue Redis::BaseConnectionError
      raise if Time.now > deadline
      sleep 0.05
      retry
    end
  },
}

$stdout.sync = true
puts "version #{Redis::VERSION}"
failed = false
checks.each do |name, check|
  next if name == :auth && !ENV["RL_PASSWORD"]
  check.call
  puts "ok #{name}"
rescue StandardError => e
  failed = true
  puts "FAIL #{name} #{e.message}"
end
exit !failed
