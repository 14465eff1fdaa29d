import java.io.File;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.Random;
import tvmake.Package;
import tvmake.Tensor;
import tvmake.TensorSpec;

/** One run through the C interface and in Java, alternately: prints medians and minima in microseconds. */
public final class Overhead {
  private static final int WARM_UP = 2000;

  private Overhead() {}

  /** Load a package through the C interface. */
  private static native long open(String directory);

  /** Nanoseconds of: set the input from memory that is there, run, copy the output. */
  private static native long run(long handle, byte[] input);

  /** Nanoseconds of copying a number of bytes. */
  private static native long copy(int bytes);

  public static void main(String[] arguments) {
    File directory = new File(arguments[0]);
    int rounds = Integer.parseInt(arguments[1]);
    Package used = Package.open(directory);
    System.loadLibrary("overhead");
    long handle = open(directory.getPath());
    TensorSpec spec = used.inputs().get(0);
    String input = spec.name(), output = used.outputs().get(0).name();

    Tensor direct = Tensor.allocate(spec.dtype(), spec.shape());
    float[] pixels = new float[direct.size()];
    Random random = new Random(1);
    for (int index = 0; index < pixels.length; ++index) pixels[index] = random.nextFloat();
    direct.bytes().asFloatBuffer().put(pixels);
    Tensor scores = used.run(Collections.singletonMap(input, direct)).get(output);
    Map<String, Tensor> given = Collections.singletonMap(input, direct);
    Map<String, Tensor> results = Collections.singletonMap(output, Tensor.allocate(scores.dtype(), scores.shape()));
    byte[] bytes = direct.toByteArray();
    int moved = bytes.length + scores.toByteArray().length;

    String[] names = {"C interface", "Java, direct tensors", "Java, arrays", "copying once"};
    long[][] found = new long[names.length][rounds];
    float sum = 0;
    for (int round = -WARM_UP; round < rounds; ++round) {
      for (int turn = 0; turn < names.length; ++turn) {
        int subject = (turn + round & 0x7FFFFFFF) % names.length;
        long taken;
        if (subject == 0) {
          taken = run(handle, bytes);
        } else if (subject == 3) {
          taken = copy(moved);
        } else {
          long began = System.nanoTime();
          if (subject == 1) {
            used.run(given, results);
          } else {
            sum += used.run(Collections.singletonMap(input, Tensor.of(pixels, spec.shape()))).get(output).floats()[0];
          }
          taken = System.nanoTime() - began;
        }
        if (round >= 0) found[subject][round] = taken;
      }
    }
    if (Float.isNaN(sum)) throw new AssertionError();
    for (long[] times : found) Arrays.sort(times);
    double base = found[0][rounds / 2] / 1e3;
    System.out.printf("%s: %d bytes in and out, %d rounds%n", used, moved, rounds);
    for (int subject = 0; subject < names.length; ++subject) {
      double median = found[subject][rounds / 2] / 1e3, least = found[subject][0] / 1e3;
      System.out.printf("  %-22s median %9.2f µs  min %9.2f  over C %+8.2f%n", names[subject], median, least, subject == 3 ? 0 : median - base);
    }
    used.close();
  }
}
