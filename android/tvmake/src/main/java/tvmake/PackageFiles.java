package tvmake;

import java.io.IOException;
import java.io.InputStream;

/** The files of a package in any storage: an app's assets, a jar. */
public interface PackageFiles {
  /**
   * Their names: {@code mod.json}, {@code mod.so}, {@code mod.params} and others; those of a function begin with its directory
   * ({@code decode/mod.so}).
   */
  String[] list() throws IOException;

  /** The content of a file. */
  InputStream open(String name) throws IOException;
}
