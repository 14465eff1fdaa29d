package tvmake;

import java.io.Closeable;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A network that tvmake compiled, loaded and ready to run.
 *
 * <pre>{@code
 * try (Package digits = Package.open(new File("digits"))) {
 *   Map<String, Tensor> outputs = digits.run(Map.of("image", Tensor.of(pixels, 1, 1, 8, 8)));
 *   float[] scores = outputs.get("logits").floats();
 * }
 * }</pre>
 *
 * <p><b>States.</b> A package with {@link #states} keeps them from run to run, until {@link #reset}. {@link #newSession}
 * gives another sequence of runs on the same weights.
 *
 * <p><b>Functions.</b> A package with several {@link #functions} has one set of weights for them: {@code
 * speech.function("decode")} is one of them, and is used as a package with one network is. Functions share states of the same
 * name, type and shape; {@link #reset}, {@link #snapshot} and {@link #restore} are about the states of all.
 *
 * <p>Import it by its name: {@code java.lang} has a class of this name, too.
 *
  * <p><b>Threads.</b> Any thread may use a package, and several may share one: their runs wait for each other, as those of
  * its sessions do. For parallel runs, open the package twice. {@link #close} waits for a current run.
 *
  * <p><b>Memory.</b> Weights and kernels are outside of Java's heap until {@link #close}; the garbage collector does not
 * free them.
 */
public final class Package implements Closeable {
  private final String where;
  private final List<String> functions;
  private final List<TensorSpec> inputs;
  private final List<TensorSpec> outputs;
  private final List<TensorSpec> states;
  private final Map<String, Integer> indices = new LinkedHashMap<>(); // of inputs, by their names
  private long handle; // 0 when closed

  private Package(String where, long handle) {
    this.where = where;
    this.handle = handle;
    this.functions = functions(handle);
    this.inputs = specs(handle, Native.INPUTS);
    this.outputs = specs(handle, Native.OUTPUTS);
    this.states = specs(handle, Native.STATES);
    for (TensorSpec input : inputs) indices.put(input.name(), indices.size());
  }

  /**
    * Verify an unpacked package by its digests, and load it for the kind of device that it was compiled for.
   *
   * @param directory with {@code mod.json}, {@code mod.so}, {@code mod.params}
    * @throws PackageException it is not a package, is damaged, or is for another device
   */
  public static Package open(File directory) {
    return open(directory, "");
  }

  /**
    * Like {@link #open(File)}, for a path. Android has this class since version 8.
   *
   * @throws PackageException as {@link #open(File)}
   */
  public static Package open(Path directory) {
    return open(directory.toFile(), "");
  }

  /**
    * Like {@link #open(File)}, for a device of your choice.
   *
   * @param device {@code cpu}, {@code opencl} …
   * @throws PackageException as {@link #open(File)}
   */
  public static Package open(File directory, String device) {
    Native.prepare();
    String where = directory.getPath();
    return of(where, Native.open(utf8(where), utf8(device)));
  }

  private static Package of(String where, long handle) {
    try {
      return new Package(where, handle);
    } catch (RuntimeException error) {
      Native.close(handle);
      throw error;
    }
  }

  /**
    * Load a package that is not in a directory. It is unpacked into one on the first call.
   *
   * @param files for example an app's assets
    * @param directory to unpack into; it is used only for the package, and anything else in it is deleted
   * @throws PackageException as {@link #open(File)}, or it cannot be unpacked
   */
  public static synchronized Package open(PackageFiles files, File directory) {
    if (Unpacking.isThere(files, directory)) {
      try {
        return open(directory, "");
      } catch (PackageException error) {
        if (error.fault() != PackageException.Fault.INPUT) throw error;
        // The files that were unpacked earlier are damaged.
      }
    }
    Unpacking.unpack(files, directory);
    return open(directory, "");
  }

  /** The names of the package's functions, in order; empty if it has one network, and of a function. */
  public List<String> functions() {
    return functions;
  }

  /**
    * A function of the package, with the states of this session. It is used and closed like the package, which may be closed
    * before; its code is loaded when it runs first.
   *
    * @throws PackageException there is no such function, or the package is closed
   */
  public synchronized Package function(String name) {
    needOpen();
    return of(where, Native.function(handle, utf8(name)));
  }

  /** The inputs, in order. */
  public List<TensorSpec> inputs() {
    return inputs;
  }

  /** The outputs, in order. */
  public List<TensorSpec> outputs() {
    return outputs;
  }

  /** Tensors that the package keeps on its device from run to run, in order. They begin as zeros. */
  public List<TensorSpec> states() {
    return states;
  }

  /**
    * A session with states of its own, on the same code and weights. It is used and closed like the package, which may be
    * closed before.
   *
    * @throws PackageException the package is closed
   */
  public synchronized Package newSession() {
    needOpen();
    return of(where, Native.newSession(handle));
  }

  /**
    * Let the states begin as zeros with the next run.
   *
    * @throws PackageException the package is closed
   */
  public synchronized void reset() {
    needOpen();
    Native.reset(handle);
  }

  /**
    * The states as bytes, for {@link #restore} in any session, process or device.
   *
    * @throws PackageException the package is closed, or the states cannot be read
   */
  public synchronized byte[] snapshot() {
    needOpen();
    return Native.snapshot(handle);
  }

  /**
    * Continue from the states of a snapshot.
   *
    * @throws PackageException the snapshot is truncated, altered, or of another package; nothing has changed
   */
  public synchronized void restore(byte[] snapshot) {
    needOpen();
    Native.restore(handle, snapshot);
  }

  /**
   * Run the network once, and wait for it. The states get their next values, unless it fails.
   *
   * @param given a tensor for each input, by its name
   * @return a new tensor for each output, by its name
    * @throws PackageException an input is unknown, missing, or has another type or shape; or the run failed
   */
  public synchronized Map<String, Tensor> run(Map<String, Tensor> given) {
    start(given);
    Map<String, Tensor> found = new LinkedHashMap<>();
    for (int index = 0; index < outputs.size(); ++index) {
      DType dtype = outputs.get(index).dtype();
      long[] shape = Native.valueShape(handle, index);
      byte[] bytes = new byte[Tensor.sizeOf(dtype, shape)];
      Native.value(handle, index, bytes, 0, bytes.length);
      found.put(outputs.get(index).name(), Tensor.holding(dtype, bytes, shape));
    }
    return found;
  }

  /**
    * Like {@link #run(Map)}, into existing tensors, so that nothing is allocated.
   *
    * @param results a tensor for each requested output, by its name; the others are left out
    * @throws PackageException as {@link #run(Map)}, or a result has another type or shape than the output
   */
  public synchronized void run(Map<String, Tensor> given, Map<String, Tensor> results) {
    for (Map.Entry<String, Tensor> result : results.entrySet()) {
      int index = indexOf(result.getKey());
      check("output", outputs.get(index), result.getValue(), "gives");
    }
    start(given);
    for (Map.Entry<String, Tensor> result : results.entrySet()) {
      Tensor tensor = result.getValue();
      ByteBuffer bytes = tensor.bytes();
      int index = indexOf(result.getKey());
      long[] shape = Native.valueShape(handle, index);
      check("output", new TensorSpec(result.getKey(), tensor.dtype(), shape), tensor, "gave");
      if (bytes.isDirect()) Native.value(handle, index, bytes, 0, bytes.limit());
      else Native.value(handle, index, bytes.array(), bytes.arrayOffset(), bytes.limit());
    }
  }

  /** Free everything. A second call has no effect; any other call after it is refused. */
  @Override
  public synchronized void close() {
    if (handle != 0) Native.close(handle);
    handle = 0;
  }

  @Override
  public String toString() {
    return where + ": " + inputs + " -> " + outputs;
  }

  private void start(Map<String, Tensor> given) {
    needOpen();
    if (!functions.isEmpty()) {
      String names = String.join(", ", functions);
      throw PackageException.input(where + ": has several functions: " + names + "\n  choose one: function(name)");
    }
    for (Map.Entry<String, Tensor> input : given.entrySet()) {
      Integer index = indices.get(input.getKey());
      if (index == null) {
        throw PackageException.input("inputs: the package has no input '" + input.getKey() + "'\n  its inputs are " + listed(inputs));
      }
      check("input", inputs.get(index), input.getValue(), "takes");
    }
    for (TensorSpec input : inputs) {
      if (!given.containsKey(input.name())) {
        throw PackageException.input("inputs: no value for '" + input.name() + "'\n  the package takes " + listed(inputs));
      }
    }
    for (Map.Entry<String, Tensor> input : given.entrySet()) {
      Tensor tensor = input.getValue();
      ByteBuffer bytes = tensor.bytes();
      int index = indices.get(input.getKey());
      if (bytes.isDirect()) Native.setInput(handle, index, bytes, 0, bytes.limit(), tensor.extents());
      else Native.setInput(handle, index, bytes.array(), bytes.arrayOffset(), bytes.limit(), tensor.extents());
    }
    Native.run(handle);
  }

  private void needOpen() {
    if (handle == 0) throw PackageException.input(where + ": the package is closed");
  }

  private int indexOf(String output) {
    for (int index = 0; index < outputs.size(); ++index) {
      if (outputs.get(index).name().equals(output)) return index;
    }
    throw PackageException.input("outputs: the package has no output '" + output + "'\n  its outputs are " + listed(outputs));
  }

  private static void check(String what, TensorSpec spec, Tensor tensor, String verb) {
    if (tensor != null && spec.takes(tensor)) return;
    throw PackageException.input(
        what + " '" + spec.name() + "' is " + tensor + ", and the package " + verb + " " + spec);
  }

  private static String listed(List<TensorSpec> specs) {
    StringBuilder text = new StringBuilder();
    for (TensorSpec spec : specs) text.append(text.length() == 0 ? "" : "; ").append(spec);
    return text.toString();
  }

  private static List<String> functions(long handle) {
    List<String> found = new ArrayList<>();
    for (int index = 0; index < Native.functions(handle); ++index) found.add(Native.text(Native.functionName(handle, index)));
    return Collections.unmodifiableList(found);
  }

  private static List<TensorSpec> specs(long handle, int kind) {
    List<TensorSpec> found = new ArrayList<>();
    for (int index = 0; index < Native.count(handle, kind); ++index) {
      String name = Native.text(Native.name(handle, kind, index));
      DType dtype = DType.of(Native.text(Native.dtype(handle, kind, index)));
      found.add(new TensorSpec(name, dtype, Native.shape(handle, kind, index)));
    }
    return Collections.unmodifiableList(found);
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
