// At most 5 requests per 10 seconds from one address.
//
//     mvn dependency:copy-dependencies -DoutputDirectory=lib
//     java -cp 'lib/*' Limited.java          # then: curl -i http://127.0.0.1:8080/
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
// when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
// applies it when its Redis is away; this program does when rlproxy is.
// RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.

import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.Executors;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisException;

public class Limited extends Filter {
  static final int LIMIT = 5; // requests
  static final int WINDOW = 10; // seconds
  static final String FAIL = env("FAIL", "OPEN");
  static final ProtocolCommand SLIDE = () -> "RL.SLIDE".getBytes();

  final RedisClient rl = RedisClient.builder()
      .hostAndPort(HostAndPort.from(env("RLPROXY", "127.0.0.1:6380")))
      .clientConfig(DefaultJedisClientConfig.builder().timeoutMillis(250).build())
      .build();

  @Override
  public void doFilter(HttpExchange http, Chain next) throws IOException {
    String key = "ip:" + http.getRemoteAddress().getAddress().getHostAddress();
    List<?> reply;
    try {
      var command = new CommandArguments(SLIDE).key(key).addObjects(LIMIT, WINDOW, "FAIL", FAIL);
      reply = (List<?>) rl.executeCommand(command);
    } catch (JedisException e) {
      if (FAIL.equals("OPEN")) next.doFilter(http);
      else answer(http, 503, "try again later\n");
      return;
    }
    boolean allowed = (Long) reply.get(0) == 1;
    long remaining = (Long) reply.get(2);
    long wait = ((Long) reply.get(3) + 999) / 1000; // seconds, when denied
    var headers = http.getResponseHeaders();
    headers.set("RateLimit-Policy", "\"default\";q=" + LIMIT + ";w=" + WINDOW);
    if (remaining >= 0) { // -1: rlproxy could not ask its Redis
      headers.set("RateLimit", "\"default\";r=" + remaining + (allowed ? "" : ";t=" + wait));
      headers.set("X-RateLimit-Limit", reply.get(1).toString());
      headers.set("X-RateLimit-Remaining", String.valueOf(remaining));
    }
    if (allowed) {
      next.doFilter(http);
      return;
    }
    headers.set("Retry-After", String.valueOf(wait));
    headers.set("X-RateLimit-Reset", String.valueOf(wait));
    answer(http, 429, "too many requests\n");
  }

  static void answer(HttpExchange http, int status, String text) throws IOException {
    try (http) {
      http.sendResponseHeaders(status, text.length());
      http.getResponseBody().write(text.getBytes());
    }
  }

  static String env(String name, String otherwise) {
    return System.getenv().getOrDefault(name, otherwise);
  }

  @Override
  public String description() {
    return "at most " + LIMIT + " requests per " + WINDOW + " s from one address";
  }

  public static void main(String[] args) throws IOException {
    int port = Integer.parseInt(env("PORT", "8080"));
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext("/", http -> answer(http, 200, "hello\n")).getFilters().add(new Limited());
    server.setExecutor(Executors.newCachedThreadPool());
    server.start();
  }
}
