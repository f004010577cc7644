import io.github.bucket4j.Bucket;
import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import java.time.Duration;

/** Asks eight times for a limit of five an hour. migrants.go says what the line of the output means. */
public class Bucket4j {
  public static void main(String[] args) {
    RedisURI uri = RedisURI.create(System.getenv("RL_HOST"), Integer.parseInt(System.getenv("RL_PORT")));
    BucketConfiguration five =
        BucketConfiguration.builder().addLimit(l -> l.capacity(5).refillGreedy(5, Duration.ofHours(1))).build();
    try {
      Bucket bucket =
          Bucket4jLettuce.casBasedBuilder(RedisClient.create(uri)).build().builder().build("bucket4j".getBytes(), () -> five);
      int admitted = 0;
      for (int i = 0; i < 8; i++) {
        admitted += bucket.tryConsume(1) ? 1 : 0;
      }
      System.out.println("Bucket4j " + admitted + " -");
    } catch (RedisException e) {
      System.out.println("Bucket4j error " + e.getMessage());
    }
    System.exit(0);
  }
}
