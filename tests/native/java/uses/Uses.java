import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import tvmake.DType;
import tvmake.Package;
import tvmake.PackageException;
import tvmake.PackageFiles;
import tvmake.Tensor;
import tvmake.TensorSpec;

/** What the tests do with packages, one word each; what comes out is printed for them to judge. */
public final class Uses {
  private static final int WARM_RUNS = 1000;

  private Uses() {}

  public static void main(String[] arguments) throws Exception {
    File directory = new File(arguments[1]);
    switch (arguments[0]) {
      case "describe":
        describe(directory);
        break;
      case "run":
        run(directory, Paths.get(arguments[2]), Paths.get(arguments[3]));
        break;
      case "mistakes":
        mistakes(directory);
        break;
      case "open":
        System.out.println(message(() -> Package.open(directory, arguments.length > 2 ? arguments[2] : "")));
        break;
      case "threads":
        threads(directory, Integer.parseInt(arguments[2]));
        break;
      case "memory":
        memory(directory, Integer.parseInt(arguments[2]));
        break;
      case "faults":
        faults(directory);
        break;
      case "states":
        states(directory, new File(arguments[2]));
        break;
      case "files":
        files(directory, new File(arguments[2]));
        break;
      default:
        throw new IllegalArgumentException(arguments[0]);
    }
  }

  private static void describe(File directory) {
    try (Package used = Package.open(directory.toPath())) {
      System.out.println(used.inputs() + " " + used.outputs());
    }
  }

  /** From a file of raw float32 to one with the first output's, in four ways that have to agree. */
  private static void run(File directory, Path from, Path to) throws IOException {
    byte[] input = Files.readAllBytes(from);
    try (Package used = Package.open(directory)) {
      TensorSpec spec = used.inputs().get(0);
      String name = spec.name(), output = used.outputs().get(0).name();
      Tensor bytes = Tensor.of(spec.dtype(), input, spec.shape());
      Tensor scores = used.run(Collections.singletonMap(name, bytes)).get(output);

      Tensor floats = Tensor.of(bytes.floats(), spec.shape());
      same(scores, used.run(Collections.singletonMap(name, floats)).get(output));

      ByteBuffer direct = ByteBuffer.allocateDirect(input.length + 24).order(ByteOrder.nativeOrder());
      direct.position(12);
      direct.put(input);
      direct.flip();
      direct.position(12);
      Tensor wrapped = Tensor.wrap(DType.FLOAT32, direct, spec.shape());
      Tensor result = Tensor.allocate(scores.dtype(), scores.shape());
      used.run(Collections.singletonMap(name, wrapped), Collections.singletonMap(output, result));
      same(scores, result);

      Tensor held = Tensor.of(new float[scores.size()], scores.shape());
      used.run(Collections.singletonMap(name, wrapped), Collections.singletonMap(output, held));
      same(scores, held);
      Files.write(to, scores.toByteArray());
      System.out.println(scores);
    }
  }

  private static void same(Tensor one, Tensor other) {
    if (!Arrays.equals(one.toByteArray(), other.toByteArray())) throw new AssertionError(one + " differs from " + other);
  }

  private static void mistakes(File directory) {
    Package used = Package.open(directory);
    Tensor image = Tensor.of(new float[64], 1, 1, 8, 8);
    Map<String, Tensor> right = Collections.singletonMap("image", image);
    Map<String, Tensor> more = new HashMap<>(right);
    more.put("photo", image);
    Callable<?>[] calls = {
      () -> used.run(more),
      () -> used.run(Collections.emptyMap()),
      () -> used.run(Collections.singletonMap("image", Tensor.of(new float[64], 1, 8, 8))),
      () -> used.run(Collections.singletonMap("image", Tensor.of(new int[64], 1, 1, 8, 8))),
      () -> used.run(Collections.singletonMap("image", null)),
      () -> into(used, right, "scores", Tensor.allocate(DType.FLOAT32, 1, 10)),
      () -> into(used, right, "logits", Tensor.allocate(DType.FLOAT32, 10)),
      () -> Tensor.of(new float[10], 1, 8),
      () -> Tensor.of(new float[10], -1, 10),
      () -> Tensor.wrap(DType.UINT8, ByteBuffer.allocate(8), 8),
      () -> Tensor.wrap(DType.UINT8, ByteBuffer.allocateDirect(8).asReadOnlyBuffer(), 8),
      () -> Tensor.allocate(DType.FLOAT32, 1L << 40, 1L << 40),
      () -> image.ints(),
      () -> Package.open(directory, "abacus"),
      () -> used.inputs().remove(0),
    };
    for (Callable<?> call : calls) System.out.println(message(call));
    System.out.println(used.run(right).get("logits"));
    used.close();
    used.close();
    System.out.println(message(() -> used.run(right)));
  }

  private static Object into(Package used, Map<String, Tensor> given, String name, Tensor result) {
    used.run(given, Collections.singletonMap(name, result));
    return result;
  }

  private static String message(Callable<?> call) {
    try {
      Object result = call.call();
      return "no exception, but " + result;
    } catch (PackageException error) {
      return error.fault() + " " + error.getMessage();
    } catch (Exception error) {
      return error.getClass().getSimpleName();
    }
  }

  /** Four threads on two packages; each run's result has to be that of its own input. */
  private static void threads(File directory, int runs) throws Exception {
    try (Package one = Package.open(directory);
        Package other = Package.open(directory)) {
      ExecutorService threads = Executors.newFixedThreadPool(4);
      Future<?>[] working = new Future<?>[4];
      for (int thread = 0; thread < working.length; ++thread) {
        Package used = thread % 2 == 0 ? one : other;
        float[] pixels = new float[64];
        Arrays.fill(pixels, thread / 4f);
        Tensor image = Tensor.of(pixels, 1, 1, 8, 8);
        Tensor expected = one.run(Collections.singletonMap("image", image)).get("logits");
        working[thread] =
            threads.submit(
                () -> {
                  for (int run = 0; run < runs; ++run) {
                    same(expected, used.run(Collections.singletonMap("image", image)).get("logits"));
                  }
                });
      }
      for (Future<?> thread : working) thread.get();
      threads.shutdown();
    }
    System.out.println("done");
  }

  /** Resident kilobytes after the first runs, and after all; each tenth run uses a package that is opened again. */
  private static void memory(File directory, int runs) throws IOException {
    long before = 0;
    Package used = Package.open(directory);
    for (int run = 0; run < WARM_RUNS + runs; ++run) {
      if (run == WARM_RUNS) before = resident();
      Tensor image = Tensor.of(new float[64], 1, 1, 8, 8);
      used.run(Collections.singletonMap("image", image));
      if (message(() -> used.run(Collections.emptyMap())).isEmpty()) throw new AssertionError();
      if (run % 10 == 0) {
        try (Package again = Package.open(directory)) {
          again.run(Collections.singletonMap("image", image));
        }
      }
    }
    System.out.println(before + " " + resident());
  }

  private static long resident() throws IOException {
    System.gc();
    for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("\\D", ""));
    }
    throw new IOException("no VmRSS");
  }

  /** Faults that the virtual machine turns into exceptions, in code that it has compiled. */
  private static void faults(File directory) {
    Package.open(directory).run(Collections.singletonMap("image", Tensor.of(new float[64], 1, 1, 8, 8)));
    int[] numbers = {1};
    int caught = 0;
    for (int turn = 0; turn < 200_000; ++turn) {
      try {
        caught += turn < 100_000 ? first(numbers) - 1 : first(null);
      } catch (NullPointerException expected) {
        ++caught;
      }
      try {
        caught += turn < 100_000 ? divided(turn, 1) - turn : divided(1, 0);
      } catch (ArithmeticException expected) {
        ++caught;
      }
    }
    System.out.println(caught);
  }

  private static int first(int[] numbers) {
    return numbers[0];
  }

  private static int divided(int one, int other) {
    return one / other;
  }

  /** An accumulator's sums in sessions, after a reset and from snapshots; and what another package says of a snapshot. */
  private static void states(File directory, File other) throws Exception {
    byte[] snapshot, begun;
    Package session;
    try (Package used = Package.open(directory)) {
      System.out.println(used.states());
      begun = used.snapshot();
      System.out.println(sum(used, 1) + " " + sum(used, 2));
      snapshot = used.snapshot();
      session = used.newSession();
      System.out.println(sum(session, 10) + " " + sum(used, 3));
      used.restore(snapshot);
      System.out.println(sum(used, 4));
      used.reset();
      System.out.println(sum(used, 5));
      used.restore(begun);
      System.out.println(sum(used, 6));
      ExecutorService threads = Executors.newFixedThreadPool(4);
      List<Future<Float>> sums = new ArrayList<>();
      for (int thread = 0; thread < 4; ++thread) {
        Package its = used.newSession();
        int value = thread;
        sums.add(
            threads.submit(
                () -> {
                  for (int run = 1; run < 200; ++run) sum(its, value);
                  float last = sum(its, value);
                  its.close();
                  return last;
                }));
      }
      for (Future<Float> sum : sums) System.out.println(sum.get());
      threads.shutdown();
    }
    System.out.println(sum(session, 20));
    session.restore(snapshot);
    System.out.println(Arrays.equals(session.snapshot(), snapshot));
    byte[] cut = Arrays.copyOf(snapshot, snapshot.length - 1);
    Package kept = session;
    System.out.println(message(() -> restored(kept, cut)));
    try (Package stranger = Package.open(other)) {
      System.out.println(stranger.states());
      System.out.println(message(() -> restored(stranger, snapshot)));
    }
    session.close();
    System.out.println(message(kept::snapshot));
    System.out.println(message(kept::newSession));
  }

  private static float sum(Package used, float value) {
    Tensor input = Tensor.of(new float[] {value, 0, 0, 0}, 1, 4);
    return used.run(Collections.singletonMap("x", input)).get("y").floats()[0];
  }

  private static Object restored(Package used, byte[] snapshot) {
    used.restore(snapshot);
    return used;
  }

  /** A package from an interface, unpacked, used again, damaged and mended. */
  private static void files(File source, File target) throws IOException {
    int[] opened = {0};
    PackageFiles files =
        new PackageFiles() {
          @Override
          public String[] list() {
            return source.list();
          }

          @Override
          public InputStream open(String name) throws IOException {
            ++opened[0];
            return new FileInputStream(new File(source, name));
          }
        };
    Tensor image = Tensor.of(new float[64], 1, 1, 8, 8);
    Tensor expected = null;
    for (String turn : new String[] {"unpacked", "again", "damaged", "cut", "interrupted"}) {
      if (turn.equals("damaged")) {
        File weights = new File(target, "mod.params");
        weights.setWritable(true);
        byte[] bytes = Files.readAllBytes(weights.toPath());
        bytes[bytes.length / 2] ^= 1;
        Files.write(weights.toPath(), bytes);
      }
      if (turn.equals("cut")) Files.delete(new File(target, "mod.json").toPath());
      if (turn.equals("interrupted")) {
        Files.delete(new File(target, "mod.so").toPath());
        Files.createDirectories(new File(target.getPath() + ".new", "mod.so").toPath());
      }
      opened[0] = 0;
      try (Package used = Package.open(files, target)) {
        Tensor scores = used.run(Collections.singletonMap("image", image)).get("logits");
        if (expected != null) same(expected, scores);
        expected = scores;
      }
      System.out.println(turn + " " + opened[0] + " " + new File(target, "mod.so").canWrite());
    }
    PackageFiles broken =
        new PackageFiles() {
          @Override
          public String[] list() {
            return new String[] {"mod.json", "../mod.so"};
          }

          @Override
          public InputStream open(String name) throws IOException {
            throw new IOException(name + " cannot be read");
          }
        };
    System.out.println(message(() -> Package.open(broken, target)));
  }
}
