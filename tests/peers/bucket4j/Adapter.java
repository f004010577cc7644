import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.ConsumptionProbe;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.RedisClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The adapter of Bucket4j: token buckets in Redis, changed by compare-and-swap over Lettuce's one
 * shared connection. The bucket holds the limit, and refills greedily by it in each window.
 */
public class Adapter {
  static final RedisClient client = RedisClient.create("redis://" + System.getenv("PEER_REDIS"));
  static final ProxyManager<byte[]> buckets =
      Bucket4jLettuce.casBasedBuilder(client)
          .expirationAfterWrite(ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10)))
          .build();
  static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));

  static BucketConfiguration per(long limit, long ms) {
    return BucketConfiguration.builder()
        .addLimit(bandwidth -> bandwidth.capacity(limit).refillGreedy(limit, Duration.ofMillis(ms)))
        .build();
  }

  static ConsumptionProbe consume(String key, BucketConfiguration limits, long cost) {
    return buckets.getProxy(key.getBytes(StandardCharsets.UTF_8), () -> limits).tryConsumeAndReturnRemaining(cost);
  }

  public static void main(String[] args) throws Exception {
    if (args[0].equals("load")) {
      load(Integer.parseInt(args[1]), Integer.parseInt(args[2]), per(Long.parseLong(args[3]), Long.parseLong(args[4])));
    } else {
      ask();
    }
    System.exit(0);
  }

  static void ask() throws IOException {
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      try {
        ConsumptionProbe probe = consume(words[0], per(Long.parseLong(words[1]), Long.parseLong(words[2])), Long.parseLong(words[3]));
        // Rounded up: a whole millisecond that is long enough.
        System.out.println(probe.isConsumed() ? "1 0" : "0 " + (probe.getNanosToWaitForRefill() + 999_999) / 1_000_000);
      } catch (RuntimeException e) {
        System.out.println("error " + e.toString().replace('\n', ' '));
      }
    }
  }

  /** Asks about random keys with so many threads for as many seconds as each line says. */
  static void load(int threads, int keys, BucketConfiguration limits) throws Exception {
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      long began = System.nanoTime();
      long end = began + (long) (Double.parseDouble(line) * 1e9);
      AtomicLong allowed = new AtomicLong();
      AtomicLong errors = new AtomicLong();
      long[][] took = new long[threads][];
      Thread[] workers = new Thread[threads];
      for (int i = 0; i < threads; i++) {
        int mine = i;
        workers[i] = new Thread(() -> took[mine] = work(end, keys, limits, allowed, errors));
        workers[i].start();
      }
      for (Thread worker : workers) worker.join();
      double seconds = (System.nanoTime() - began) / 1e9;
      long[] all = Arrays.stream(took).flatMapToLong(Arrays::stream).sorted().toArray();
      System.out.printf(
          "{\"decisions\":%d,\"allowed\":%d,\"errors\":%d,\"seconds\":%f,\"p50_us\":%f,\"p99_us\":%f}%n",
          all.length, allowed.get(), errors.get(), seconds, us(all, 0.5), us(all, 0.99));
    }
  }

  static long[] work(long end, int keys, BucketConfiguration limits, AtomicLong allowed, AtomicLong errors) {
    long[] took = new long[1024];
    int n = 0;
    for (long at = System.nanoTime(); at < end; ) {
      try {
        if (consume(String.format("key:%012d", ThreadLocalRandom.current().nextInt(keys)), limits, 1).isConsumed()) {
          allowed.incrementAndGet();
        }
      } catch (RuntimeException e) {
        errors.incrementAndGet();
      }
      long now = System.nanoTime();
      if (n == took.length) took = Arrays.copyOf(took, 2 * n);
      took[n++] = now - at;
      at = now;
    }
    return Arrays.copyOf(took, n);
  }

  static double us(long[] sorted, double quantile) {
    return sorted[(int) (quantile * (sorted.length - 1))] / 1e3;
  }
}
