import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import tvmake.Package;
import tvmake.PackageException;
import tvmake.PackageFiles;
import tvmake.Tensor;

/** A package with several functions: in a session, alone, from a snapshot, and unpacked from an interface. */
final class Functions {
  private Functions() {}

  public static void main(String[] arguments) throws IOException {
    File directory = new File(arguments[0]);
    Package decode;
    try (Package speech = Package.open(directory)) {
      decode = speech.function("decode");
      try (Package prefill = speech.function("prefill")) {
        System.out.println(speech.functions() + " " + decode.functions() + " " + speech.inputs() + " " + decode.states());
        byte[] begun = speech.snapshot();
        System.out.println(first(prefill, "tokens", 1, 2, 3) + " " + decoded(decode));
        try (Package alone = decode.newSession()) {
          System.out.println(decoded(alone));
        }
        decode.restore(begun);
        System.out.println(first(prefill, "tokens", 1, 2, 3) + " " + decoded(decode));
        refused(() -> speech.run(Collections.emptyMap()));
        refused(() -> speech.function("encode"));
      }
    }
    Package kept = decode;
    kept.close();
    refused(() -> first(kept, "token", 1));
    unpack(directory, new File(arguments[1]));
  }

  private static float first(Package function, String input, long... tokens) {
    Tensor given = Tensor.of(tokens, 1, tokens.length);
    return function.run(Collections.singletonMap(input, given)).get("summary").floats()[0];
  }

  private static String decoded(Package decode) {
    return first(decode, "token", 4) + " " + first(decode, "token", 5) + " " + first(decode, "token", 6);
  }

  private static void refused(Runnable use) {
    try {
      use.run();
    } catch (PackageException error) {
      System.out.println(error.fault() + " " + error.getMessage());
    }
  }

  private static void unpack(File source, File target) {
    List<String> names = new ArrayList<>();
    for (File file : source.listFiles()) {
      if (file.isFile()) names.add(file.getName());
      else for (String inside : file.list()) names.add(file.getName() + "/" + inside);
    }
    int[] opened = {0};
    PackageFiles files =
        new PackageFiles() {
          @Override
          public String[] list() {
            return names.toArray(new String[0]);
          }

          @Override
          public InputStream open(String name) throws IOException {
            ++opened[0];
            return new FileInputStream(new File(source, name));
          }
        };
    try (Package unpacked = Package.open(files, target)) {
      System.out.println("unpacked " + opened[0] + " " + unpacked.functions());
    }
  }
}
