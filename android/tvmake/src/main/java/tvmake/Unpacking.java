package tvmake;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.regex.Pattern;

/** Copies the files of a package into a directory: the system loads code from real files only. */
final class Unpacking {
  private static final String MANIFEST = "mod.json";
  private static final int BLOCK = 1 << 16;

  /** A file of a package, or of one of its functions. */
  private static final Pattern NAME = Pattern.compile("([^./\\\\][^/\\\\]*/)?[^./\\\\][^/\\\\]*");

  private Unpacking() {}

  /** Whether a directory has the package, by its manifest. */
  static boolean isThere(PackageFiles files, File directory) {
    File manifest = new File(directory, MANIFEST);
    if (!manifest.isFile()) return false;
    try (InputStream wanted = files.open(MANIFEST);
        InputStream found = new FileInputStream(manifest)) {
      return Arrays.equals(read(wanted), read(found));
    } catch (IOException error) {
      return false;
    }
  }

  /**
    * Replace a directory by the package, completely or not at all.
   *
   * @throws PackageException a file cannot be read or written
   */
  static void unpack(PackageFiles files, File directory) {
    File fresh = new File(directory.getPath() + ".new");
    try {
      delete(fresh);
      if (!fresh.mkdirs()) throw new IOException(fresh + " cannot be created");
      for (String name : files.list()) {
        if (!NAME.matcher(name).matches()) throw new IOException("'" + name + "' is not a file name");
        File file = new File(fresh, name);
        if (!file.getParentFile().isDirectory() && !file.getParentFile().mkdir()) {
          throw new IOException(file.getParentFile() + " cannot be created");
        }
        copy(files, name, file);
      }
      delete(directory);
      if (!fresh.renameTo(directory)) throw new IOException(directory + " cannot be renamed");
    } catch (IOException error) {
      throw PackageException.device(directory + ": the package cannot be unpacked: " + error.getMessage());
    }
  }

  private static void copy(PackageFiles files, String name, File destination) throws IOException {
    try (InputStream from = files.open(name);
        OutputStream to = new FileOutputStream(destination)) {
      copy(from, to);
    }
    // Newer systems refuse writable code. If permissions cannot be set, nothing is lost.
    destination.setReadOnly();
  }

  private static byte[] read(InputStream stream) throws IOException {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    copy(stream, content);
    return content.toByteArray();
  }

  private static void copy(InputStream from, OutputStream to) throws IOException {
    byte[] block = new byte[BLOCK];
    for (int count = from.read(block); count >= 0; count = from.read(block)) to.write(block, 0, count);
  }

  private static void delete(File directory) throws IOException {
    File[] files = directory.listFiles();
    if (files != null) {
      for (File file : files) delete(file);
    }
    if (directory.exists() && !directory.delete()) throw new IOException(directory + " cannot be deleted");
  }
}
