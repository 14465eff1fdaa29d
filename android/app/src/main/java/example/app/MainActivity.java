package example.app;

import android.app.Activity;
import android.content.res.AssetManager;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.os.Bundle;
import android.widget.ImageView;
import android.widget.TextView;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import tvmake.Package;
import tvmake.android.AssetFiles;

/** Shows an image of the assets, and the network's result for it. */
public final class MainActivity extends Activity {
  private static final String PACKAGE = "package", IMAGES = "images";

  private final ExecutorService worker = Executors.newSingleThreadExecutor();
  private Classifier classifier; // used by the worker alone
  private int shown;

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    setContentView(R.layout.main);
    findViewById(R.id.image).setOnClickListener(view -> worker.execute(this::showNext));
    worker.execute(this::showNext);
  }

  @Override
  protected void onDestroy() {
    worker.execute(
        () -> {
          if (classifier != null) classifier.close();
        });
    worker.shutdown();
    super.onDestroy();
  }

  private void showNext() {
    try {
      AssetManager assets = getAssets();
      if (classifier == null) classifier = open(assets);
      String[] names = assets.list(IMAGES);
      if (names == null || names.length == 0) throw new IOException("no image in assets/" + IMAGES);
      String name = names[shown++ % names.length];
      Bitmap bitmap;
      try (InputStream stream = assets.open(IMAGES + "/" + name)) {
        bitmap = BitmapFactory.decodeStream(stream);
      }
      if (bitmap == null) throw new IOException(name + " is not an image that Android reads");
      show(bitmap, name + "\n\n" + classifier.classify(image(bitmap)));
    } catch (IOException | RuntimeException error) {
      show(null, String.valueOf(error.getMessage()));
    }
  }

  private Classifier open(AssetManager assets) throws IOException {
    Properties settings = Classifier.settings(assets.open("app.properties"));
    List<String> labels = Classifier.labels(assets.open("labels.txt"));
    Package network = Package.open(new AssetFiles(assets, PACKAGE), new File(getNoBackupFilesDir(), PACKAGE));
    return new Classifier(network, settings, labels);
  }

  private static RgbImage image(Bitmap bitmap) {
    int width = bitmap.getWidth(), height = bitmap.getHeight();
    int[] pixels = new int[width * height];
    bitmap.getPixels(pixels, 0, width, 0, 0, width, height);
    return RgbImage.of(pixels, width, height);
  }

  private void show(Bitmap bitmap, String text) {
    runOnUiThread(
        () -> {
          if (bitmap != null) ((ImageView) findViewById(R.id.image)).setImageBitmap(bitmap);
          ((TextView) findViewById(R.id.result)).setText(text);
        });
  }
}
