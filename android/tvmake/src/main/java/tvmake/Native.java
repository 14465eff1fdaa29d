package tvmake;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
  * The native methods. They check nothing that Java can check: handles belong to open packages, numbers are in range, and one
  * thread at a time uses a package.
 */
final class Native {
  /** Kinds of tensors. */
  static final int INPUTS = 0, OUTPUTS = 1, STATES = 2;

  private static final String LIBRARY = "tvmake_jni";
  private static boolean isLoaded;

  private Native() {}

  /**
    * Load the native libraries on the first call.
   *
    * @throws PackageException they are missing, or not for this device
   */
  static synchronized void prepare() {
    if (isLoaded) return;
    try {
      System.loadLibrary(LIBRARY);
    } catch (UnsatisfiedLinkError error) {
      throw missing(error.getMessage());
    }
    String problem = text(load());
    if (!problem.isEmpty()) throw missing(problem);
    isLoaded = true;
  }

  private static PackageException missing(String problem) {
    return PackageException.device(
        "native libraries: cannot be loaded ("
            + problem
            + ")\n  libtvmake_jni.so, libtvmake_package.so, libtvm_runtime.so and libtvm_ffi.so must be in one directory"
            + " of java.library.path; in an app, in its jniLibs for this device's ABI");
  }

  static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  /** Why the libraries cannot be used; empty if they can. */
  private static native byte[] load();

  static native long open(byte[] directory, byte[] device);

  static native long newSession(long handle);

  static native int functions(long handle);

  static native byte[] functionName(long handle, int index);

  static native long function(long handle, byte[] name);

  static native void close(long handle);

  static native int count(long handle, int kind);

  static native byte[] name(long handle, int kind, int index);

  static native byte[] dtype(long handle, int kind, int index);

  static native long[] shape(long handle, int kind, int index);

  static native void setInput(long handle, int index, ByteBuffer direct, long offset, long bytes, long[] shape);

  static native void setInput(long handle, int index, byte[] array, int offset, int bytes, long[] shape);

  static native void run(long handle);

  static native void reset(long handle);

  static native byte[] snapshot(long handle);

  static native void restore(long handle, byte[] snapshot);

  static native long[] valueShape(long handle, int index);

  static native void value(long handle, int index, ByteBuffer direct, long offset, long bytes);

  static native void value(long handle, int index, byte[] array, int offset, int bytes);
}
