package example.app;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import tvmake.DType;
import tvmake.Package;
import tvmake.Specs;
import tvmake.Tensor;

/** The parts of the app that need no Android, on files that the tests write. */
public final class AppUses {
  private AppUses() {}

  public static void main(String[] arguments) throws IOException {
    Path directory = Paths.get(arguments[1]);
    switch (arguments[0]) {
      case "inputs":
        for (String line : Files.readAllLines(directory.resolve("cases.txt"))) System.out.println(input(directory, line));
        break;
      case "top":
        top();
        break;
      case "classify":
        classify(directory, new File(arguments[2]));
        break;
      default:
        throw new IllegalArgumentException(arguments[0]);
    }
  }

  /** A line is a name, a type, a shape, and the image's width and height; NAME.rgb and NAME.properties go with it. */
  private static String input(Path directory, String line) throws IOException {
    String[] words = line.split(" ");
    long[] shape = Arrays.stream(words[2].split(",")).mapToLong(Long::parseLong).toArray();
    try {
      RgbImage image = image(directory.resolve(words[0] + ".rgb"), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
      Properties settings = settings(directory.resolve(words[0] + ".properties"));
      Tensor tensor = new ImageInput(Specs.input(words[1], shape), settings).of(image);
      Files.write(directory.resolve(words[0] + ".out"), tensor.toByteArray());
      return words[0] + " " + tensor;
    } catch (IllegalArgumentException error) {
      return words[0] + " " + error.getMessage().replace("\n", " |");
    }
  }

  private static RgbImage image(Path file, int width, int height) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file));
    int[] pixels = new int[width * height];
    for (int index = 0; index < pixels.length; ++index) {
      pixels[index] = 0xFF << 24 | (bytes.get() & 0xFF) << 16 | (bytes.get() & 0xFF) << 8 | bytes.get() & 0xFF;
    }
    return RgbImage.of(pixels, width, height);
  }

  private static Properties settings(Path file) throws IOException {
    return Classifier.settings(Files.newInputStream(file));
  }

  private static void top() throws IOException {
    List<String> labels = Classifier.labels(new ByteArrayInputStream("zero\none\n".getBytes(StandardCharsets.UTF_8)));
    Tensor scores = Tensor.of(new float[] {0.5f, Float.NaN, 7, 7, -1, Float.POSITIVE_INFINITY}, 1, 6);
    System.out.println(TopScores.of(scores, 4, labels));
    System.out.println(TopScores.of(scores, 100, Collections.emptyList()).size());
    System.out.println(TopScores.of(Tensor.of(DType.UINT8, new byte[] {1, -1, 127}, 3), 1, labels));
    System.out.println(TopScores.of(Tensor.of(new long[] {-5, 3}, 2), 2, labels));
    ByteBuffer half = ByteBuffer.allocateDirect(2).order(ByteOrder.nativeOrder());
    try {
      TopScores.of(Tensor.wrap(DType.FLOAT16, half, 1), 1, labels);
    } catch (IllegalArgumentException error) {
      System.out.println(error.getMessage());
    }
  }

  private static void classify(Path directory, File network) throws IOException {
    Properties settings = settings(directory.resolve("digit.properties"));
    List<String> labels = Arrays.asList("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine");
    try (Classifier classifier = new Classifier(Package.open(network), settings, labels)) {
      System.out.println(classifier.classify(image(directory.resolve("digit.rgb"), 8, 8)));
    }
  }
}
