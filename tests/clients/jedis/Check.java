import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.KeyValue;

/** Jedis: HELLO 3 with a fallback, a pool of 8 connections, any command as a ProtocolCommand. */
public class Check {
  static final ProtocolCommand SLIDE = () -> "RL.SLIDE".getBytes();
  static final ProtocolCommand COUNTER = () -> "RL.COUNTER".getBytes();
  static final ProtocolCommand CHECK = () -> "RL.CHECK".getBytes();
  static final ProtocolCommand POLICY = () -> "RL.POLICY".getBytes();
  static final String LIMIT_ERROR = "ERR limit must be an integer between 1 and 1000000000000; it was '0'";

  interface Step {
    void run() throws Exception;
  }

  static RedisClient open(String password) {
    // Its own 2 s are too short for a busy machine.
    DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder().timeoutMillis(20_000);
    if (env("RL_USERNAME") != null) config.user(env("RL_USERNAME"));
    if (password != null) config.password(password);
    if (env("RL_DEFAULT") == null) {
      if (env("RL_PROTO").equals("2")) config.resp2(); else config.resp3();
    }
    HostAndPort address = new HostAndPort(env("RL_HOST"), Integer.parseInt(env("RL_PORT")));
    return RedisClient.builder().hostAndPort(address).clientConfig(config.build()).build();
  }

  static final RedisClient redis = open(env("RL_PASSWORD"));

  static CommandArguments words(ProtocolCommand command, Object... args) {
    return new CommandArguments(command).addObjects(args);
  }

  static void connect() {
    String info = new String((byte[]) redis.executeCommand(words(Protocol.Command.CLIENT, "INFO")));
    want(info.contains("resp=" + env("RL_PROTO")), info);
  }

  static void auth() {
    try (RedisClient stranger = open("wrong")) {
      stranger.ping();
      want(false, "a wrong password was taken");
    } catch (JedisDataException e) {
      want(e.getMessage().startsWith("WRONGPASS invalid username-password pair"), e);
    }
  }

  static void slide() {
    int[][] rows = {{1, 2}, {1, 1}, {1, 0}, {0, 0}};
    for (int[] row : rows) {
      List<?> r = (List<?>) redis.executeCommand(words(SLIDE, "slide", "3", "3600"));
      long reset = (Long) r.get(4);
      want(r.size() == 5 && num(r, 0) == row[0] && num(r, 1) == 3 && num(r, 2) == row[1], r);
      want((num(r, 3) == 0) == (row[0] == 1) && reset > 0 && reset <= 3_600_001, r);
    }
  }

  static void counter() {
    List<?> r = (List<?>) redis.executeCommand(words(COUNTER, "counter", "10", "3600", "COST", "4"));
    want(r.subList(0, 4).equals(List.of(1L, 10L, 6L, 0L)), r);
  }

  static void policy() {
    redis.executeCommand(words(POLICY, "SET", "plan", "SLIDE", "3", "3600"));
    List<?> r = (List<?>) redis.executeCommand(words(CHECK, "plan", "k"));
    want(r.subList(0, 4).equals(List.of(1L, 3L, 2L, 0L)), r);
    Object plan = redis.executeCommand(words(POLICY, "GET", "plan"));
    Object pair = ((List<?>) field(plan, "limits")).get(0);
    want(new String((byte[]) field(plan, "name")).equals("plan") && field(pair, "limit").equals(3L), plan);
  }

  /** A map is a list of pairs in RESP3, and of keys and values in RESP2. */
  static Object field(Object reply, String name) {
    List<?> map = (List<?>) reply;
    for (int i = 0; i < map.size(); i++) {
      if (map.get(i) instanceof KeyValue<?, ?> pair && new String((byte[]) pair.getKey()).equals(name)) return pair.getValue();
      if (map.get(i) instanceof byte[] key && new String(key).equals(name)) return map.get(i + 1);
    }
    return null;
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
      Object[] args = Arrays.copyOfRange(words, 1, words.length);
      Object reply = redis.executeCommand(words(() -> words[0].getBytes(), args));
      want(reply.toString().contains(steps.get(i + 1)), steps.get(i) + ": " + reply);
    }
  }

  static void pipeline() {
    List<Response<Object>> replies = new ArrayList<>();
    try (AbstractPipeline p = redis.pipelined()) {
      for (int i = 0; i < 20; i++) replies.add(p.sendCommand(words(SLIDE, "pipeline", "20", "3600")));
      p.sync();
    }
    for (int i = 0; i < 20; i++) want(num(replies.get(i).get(), 2) == 19 - i, i);
  }

  static void transaction() {
    try (AbstractTransaction t = redis.multi()) {
      for (int i = 0; i < 3; i++) t.sendCommand(words(SLIDE, "transaction", "2", "3600"));
      List<Object> replies = t.exec();
      for (int i = 0; i < 3; i++) want(num(replies.get(i), 0) == (i < 2 ? 1 : 0), replies);
    }
  }

  static void parallel() throws Exception {
    Callable<Long> task = () -> num(redis.executeCommand(words(SLIDE, "parallel", "30", "3600")), 0);
    var threads = Executors.newFixedThreadPool(50);
    long admitted = 0;
    for (Future<Long> f : threads.invokeAll(Collections.nCopies(50, task))) admitted += f.get();
    threads.shutdown();
    want(admitted == 30, admitted);
  }

  static void error() {
    try {
      want(false, redis.executeCommand(words(SLIDE, "error", "0", "3600")));
    } catch (JedisDataException e) {
      want(e.getMessage().equals(LIMIT_ERROR), e);
    }
  }

  static void reconnect() throws Exception {
    System.out.println("RESTART");
    want("OK".equals(new BufferedReader(new InputStreamReader(System.in)).readLine()), "no OK");
    for (long end = System.currentTimeMillis() + 60_000; ; Thread.sleep(50)) {
      try {
        want(num(redis.executeCommand(words(SLIDE, "reconnect", "1", "3600")), 0) == 1, "denied");
        return;
      } catch (JedisConnectionException e) {
        if (System.currentTimeMillis() > end) throw e;
      }
    }
  }

  static String env(String name) {
    return System.getenv(name);
  }

  static String version() throws IOException {
    Properties pom = new Properties();
    pom.load(Check.class.getResourceAsStream("/META-INF/maven/redis.clients/jedis/pom.properties"));
    return pom.getProperty("version");
  }

  static long num(Object reply, int i) {
    return (Long) ((List<?>) reply).get(i);
  }

  static void want(boolean ok, Object got) {
    if (!ok) throw new IllegalStateException("unexpected: " + got);
  }

  public static void main(String[] args) throws IOException {
    System.out.println("version " + version());
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
