import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.time.Duration;
import java.util.List;

/**
 * What Lettuce does with a request whose reply is lost, that is not answered, or that cannot be sent: with its own settings, and
 * with those below, which docs/clients.md shows. settings.go says what the lines of the output mean.
 */
public class Settings {
  record Word(String text) implements ProtocolKeyword {
    public byte[] getBytes() {
      return text.getBytes();
    }

    public String toString() {
      return text;
    }
  }

  static ClientOptions settings() {
    Duration ms = Duration.ofMillis(Integer.parseInt(System.getenv("RL_MS"))); // 250 in an application
    // settings
    return ClientOptions.builder()
        .socketOptions(SocketOptions.builder().connectTimeout(ms).build())
        .timeoutOptions(TimeoutOptions.enabled(ms)) // its own is a minute
        .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS) // fail at once
        .replayFilter(command -> true) // else it sends again what may have been charged
        .build();
    // end
  }

  static StatefulRedisConnection<String, String> dial(String port, ClientOptions options) {
    String host = System.getenv("RL_HOST");
    RedisClient client = RedisClient.create(RedisURI.create(host, Integer.parseInt(System.getenv(port))));
    client.setOptions(options);
    return client.connect();
  }

  interface Dial {
    StatefulRedisConnection<String, String> call();
  }

  static void ask(Dial dial, String key, int limit, String... more) {
    String outcome;
    long began = System.nanoTime();
    try {
      CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8).addKey(key).add(limit).add(3600);
      for (String word : more) {
        args.add(word);
      }
      List<Object> reply =
          dial.call().sync().dispatch(new Word("RL.SLIDE"), new ArrayOutput<>(StringCodec.UTF8), args);
      outcome = reply.get(1).equals((long) limit) ? "reply" : "wrong";
    } catch (RedisException e) {
      System.err.println(key + " " + e.getMessage());
      outcome = "error";
    }
    System.out.println(key + " " + outcome + " " + (System.nanoTime() - began) / 1_000_000);
  }

  public static void main(String[] args) {
    ask(() -> dial("RL_PORT", ClientOptions.create()), "lose-default", 5);
    ask(() -> dial("RL_PORT", ClientOptions.create()), "lose-once", 5, "ONCE", "x");
    ask(() -> dial("RL_PORT", settings()), "lose-set", 5);
    ask(() -> dial("RL_PORT", settings()), "lose-other", 5, "ONCE", "x");
    ask(() -> dial("RL_OTHER", settings()), "lose-other", 5, "ONCE", "x");
    ask(() -> dial("RL_PORT", settings()), "hang-set", 5);
    ask(() -> dial("RL_AWAY", settings()), "away-set", 5);
    StatefulRedisConnection<String, String> kept = dial("RL_PORT", settings());
    ask(() -> kept, "late-first", 9);
    ask(() -> kept, "late-kept", 5);
    System.exit(0);
  }
}
