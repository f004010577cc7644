import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Lettuce: HELLO 3, one shared connection that reconnects by itself, asynchronous inside. */
public class Check {
  static final String LIMIT_ERROR = "ERR limit must be an integer between 1 and 1000000000000; it was '0'";

  /** A command that the library does not know. */
  record Word(String text) implements ProtocolKeyword {
    public byte[] getBytes() {
      return text.getBytes();
    }

    public String toString() {
      return text;
    }
  }

  interface Step {
    void run() throws Exception;
  }

  static RedisClient open(String password) {
    RedisURI.Builder uri = RedisURI.builder().withHost(env("RL_HOST")).withPort(Integer.parseInt(env("RL_PORT")));
    if (env("RL_USERNAME") != null) uri.withAuthentication(env("RL_USERNAME"), password);
    else if (password != null) uri.withPassword(password.toCharArray());
    RedisClient client = RedisClient.create(uri.build());
    // Its own 10 s are too short for a busy machine.
    SocketOptions socket = SocketOptions.builder().connectTimeout(Duration.ofSeconds(20)).build();
    ClientOptions.Builder options = ClientOptions.builder().socketOptions(socket);
    if (env("RL_DEFAULT") == null) {
      options.protocolVersion(env("RL_PROTO").equals("2") ? ProtocolVersion.RESP2 : ProtocolVersion.RESP3);
    }
    client.setOptions(options.build());
    return client;
  }

  static StatefulRedisConnection<String, String> redis;

  static RedisFuture<List<Object>> call(String name, Object... args) {
    CommandArgs<String, String> words = new CommandArgs<>(StringCodec.UTF8);
    for (Object arg : args) words.add(arg.toString());
    return redis.async().dispatch(new Word(name), new ArrayOutput<>(StringCodec.UTF8), words);
  }

  static void connect() {
    redis = open(env("RL_PASSWORD")).connect();
    String info = redis.sync().clientInfo();
    want(info.contains("resp=" + env("RL_PROTO")), info);
  }

  static void auth() {
    RedisClient stranger = open("wrong");
    try {
      stranger.connect();
      want(false, "a wrong password was taken");
    } catch (RedisConnectionException e) {
      want(e.getCause().getMessage().startsWith("WRONGPASS invalid username-password pair"), e.getCause());
    } finally {
      stranger.shutdown();
    }
  }

  static void slide() throws Exception {
    int[][] rows = {{1, 2}, {1, 1}, {1, 0}, {0, 0}};
    for (int[] row : rows) {
      List<Object> r = call("RL.SLIDE", "slide", 3, 3600).get();
      want(r.size() == 5 && num(r, 0) == row[0] && num(r, 1) == 3 && num(r, 2) == row[1], r);
      want((num(r, 3) == 0) == (row[0] == 1) && num(r, 4) > 0 && num(r, 4) <= 3_600_001, r);
    }
  }

  static void counter() throws Exception {
    List<Object> r = call("RL.COUNTER", "counter", 10, 3600, "COST", 4).get();
    want(r.subList(0, 4).equals(List.of(1L, 10L, 6L, 0L)), r);
  }

  static void policy() throws Exception {
    call("RL.POLICY", "SET", "plan", "SLIDE", 3, 3600).get();
    List<Object> r = call("RL.CHECK", "plan", "k").get();
    want(r.subList(0, 4).equals(List.of(1L, 3L, 2L, 0L)), r);
    List<Object> plan = call("RL.POLICY", "GET", "plan").get(); // keys and values
    Object pair = ((List<?>) field(plan, "limits")).get(0);
    want(field(plan, "name").equals("plan") && field(pair, "limit").equals(3L), plan);
  }

  static Object field(Object map, String name) {
    return ((List<?>) map).get(((List<?>) map).indexOf(name) + 1);
  }

  static void holds() throws Exception {
    List<String> steps = List.of(
        "RL.SLIDE once 5 3600 ONCE a", "[1, 5, 4, 0, ",
        "RL.SLIDE once 5 3600 ONCE a", "[1, 5, 4, 0, ",
        "RL.RESERVE reserve 100 3600 COST 40 ID a", "[1, 100, 60, 0, ",
        "RL.SETTLE reserve a 15", "[1, 15, 25]",
        "RL.ACQUIRE slots 1 ID a", "[1, 1, 0, 0, ",
        "RL.ACQUIRE slots 1 ID b", "[0, 1, 0, ",
        "RL.RELEASE slots a b", "1",
        "RL.SLIDE user 5 3600 AND everyone 9 3600", "[[1, 5, 4, 0, ",
        "RL.SLIDE user 5 3600 AND everyone 9 3600", "], [1, 9, 7, 0, ");
    for (int i = 0; i < steps.size(); i += 2) {
      String[] words = steps.get(i).split(" ");
      Object reply = call(words[0], (Object[]) Arrays.copyOfRange(words, 1, words.length)).get();
      want(reply.toString().contains(steps.get(i + 1)), steps.get(i) + ": " + reply);
    }
  }

  static void pipeline() throws Exception {
    List<RedisFuture<List<Object>>> replies = new ArrayList<>();
    redis.setAutoFlushCommands(false);
    for (int i = 0; i < 20; i++) replies.add(call("RL.SLIDE", "pipeline", 20, 3600));
    redis.flushCommands();
    redis.setAutoFlushCommands(true);
    for (int i = 0; i < 20; i++) want(num(replies.get(i).get(), 2) == 19 - i, i);
  }

  static void transaction() throws Exception {
    redis.sync().multi();
    for (int i = 0; i < 3; i++) call("RL.SLIDE", "transaction", 2, 3600);
    TransactionResult replies = redis.sync().exec();
    for (int i = 0; i < 3; i++) want(num(replies.get(i), 0) == (i < 2 ? 1 : 0), replies);
  }

  static void parallel() throws Exception {
    Callable<Long> task = () -> num(call("RL.SLIDE", "parallel", 30, 3600).get(), 0);
    var threads = Executors.newFixedThreadPool(50);
    long admitted = 0;
    for (Future<Long> f : threads.invokeAll(Collections.nCopies(50, task))) admitted += f.get();
    threads.shutdown();
    want(admitted == 30, admitted);
  }

  static void error() throws Exception {
    try {
      want(false, call("RL.SLIDE", "error", 0, 3600).get());
    } catch (ExecutionException e) {
      want(e.getCause() instanceof RedisCommandExecutionException, e);
      want(e.getCause().getMessage().equals(LIMIT_ERROR), e);
    }
  }

  static void reconnect() throws Exception {
    System.out.println("RESTART");
    want("OK".equals(new BufferedReader(new InputStreamReader(System.in)).readLine()), "no OK");
    for (long end = System.currentTimeMillis() + 60_000; ; Thread.sleep(50)) {
      try {
        want(num(call("RL.SLIDE", "reconnect", 1, 3600).get(), 0) == 1, "denied");
        return;
      } catch (ExecutionException e) {
        if (System.currentTimeMillis() > end) throw e;
      }
    }
  }

  static String env(String name) {
    return System.getenv(name);
  }

  static long num(Object reply, int i) {
    return (Long) ((List<?>) reply).get(i);
  }

  static void want(boolean ok, Object got) {
    if (!ok) throw new IllegalStateException("unexpected: " + got);
  }

  public static void main(String[] args) {
    System.out.println("version " + LettuceVersion.getVersion().split("/")[0]);
    Map<String, Step> checks = new LinkedHashMap<>();
    checks.put("connect", Check::connect);
    if (env("RL_PASSWORD") != null) checks.put("auth", Check::auth);
    checks.put("slide", Check::slide);
    checks.put("counter", Check::counter);
    checks.put("policy", Check::policy);
    checks.put("holds", Check::holds);
    checks.put("pipeline", Check::pipeline);
    checks.put("transaction", Check::transaction);
    checks.put("parallel", Check::parallel);
    checks.put("error", Check::error);
    checks.put("reconnect", Check::reconnect);
    boolean failed = false;
    for (var check : checks.entrySet()) {
      try {
        check.getValue().run();
        System.out.println("ok " + check.getKey());
      } catch (Exception e) {
        failed = true;
        System.out.println("FAIL " + check.getKey() + " " + e);
      }
    }
    System.exit(failed ? 1 : 0);
  }
}
