package example.app;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import tvmake.Package;
import tvmake.Tensor;

/** A network that classifies an image. */
final class Classifier implements AutoCloseable {
  static final int SHOWN = 5;

  private final Package network;
  private final ImageInput input;
  private final List<String> labels;

  /** Closes the package when it is closed, and at once if the package does not accept images. */
  Classifier(Package network, Properties settings, List<String> labels) {
    this.network = network;
    this.labels = labels;
    try {
      if (network.inputs().size() != 1) {
        throw new IllegalArgumentException("the app gives one image, and the package takes " + network.inputs());
      }
      this.input = new ImageInput(network.inputs().get(0), settings);
    } catch (RuntimeException error) {
      network.close();
      throw error;
    }
  }

  /** The highest scores, and the network's time, as text. */
  String classify(RgbImage image) {
    Map<String, Tensor> given = Collections.singletonMap(network.inputs().get(0).name(), input.of(image));
    long began = System.nanoTime();
    Tensor scores = network.run(given).get(network.outputs().get(0).name());
    double milliseconds = (System.nanoTime() - began) / 1e6;
    StringBuilder text = new StringBuilder();
    for (TopScores.Score score : TopScores.of(scores, SHOWN, labels)) text.append(score).append('\n');
    return text.append(String.format(java.util.Locale.ROOT, "\n%.2f ms", milliseconds)).toString();
  }

  @Override
  public void close() {
    network.close();
  }

  /** The keys of {@code app.properties}. */
  static Properties settings(InputStream stream) throws IOException {
    Properties settings = new Properties();
    try (Reader reader = new InputStreamReader(stream, StandardCharsets.UTF_8)) {
      settings.load(reader);
    }
    return settings;
  }

  /** Names of classes, one per line. */
  static List<String> labels(InputStream stream) throws IOException {
    List<String> labels = new ArrayList<>();
    try (BufferedReader reader = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) labels.add(line.trim());
    }
    return labels;
  }
}
