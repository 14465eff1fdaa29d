package example.app;

/** Pixels of 8 bits a channel: {@code planes[channel][row * width + column]}. */
final class RgbImage {
  private static final int PRECISION_BITS = 22; // of weights; sums of their products with 8 bits must fit into 32

  final int width;
  final int height;
  final int[][] planes;

  RgbImage(int width, int height, int[][] planes) {
    this.width = width;
    this.height = height;
    this.planes = planes;
  }

  /** Red, green and blue of pixels in the format of Android's bitmaps ({@code 0xAARRGGBB}). */
  static RgbImage of(int[] pixels, int width, int height) {
    int[][] planes = new int[3][pixels.length];
    for (int index = 0; index < pixels.length; ++index) {
      planes[0][index] = pixels[index] >> 16 & 0xFF;
      planes[1][index] = pixels[index] >> 8 & 0xFF;
      planes[2][index] = pixels[index] & 0xFF;
    }
    return new RgbImage(width, height, planes);
  }

  /** Luma by ITU-R 601-2, from red, green and blue. */
  RgbImage gray() {
    int[] luma = new int[width * height];
    for (int index = 0; index < luma.length; ++index) {
      luma[index] = (int) Math.rint(planes[0][index] * 0.299f + planes[1][index] * 0.587f + planes[2][index] * 0.114f);
    }
    return new RgbImage(width, height, new int[][] {luma});
  }

  /** The channels in reverse order. */
  RgbImage reversed() {
    return new RgbImage(width, height, new int[][] {planes[2], planes[1], planes[0]});
  }

  /** Cut from the centre. */
  RgbImage cropped(int newHeight, int newWidth) {
    if (newHeight > height || newWidth > width) {
      throw new IllegalArgumentException(
          "the image is " + height + "×" + width + " when it is to be cropped to " + newHeight + "×" + newWidth
              + "\n  app.properties: resize to at least the crop");
    }
    int top = (int) Math.rint((height - newHeight) / 2.0), left = (int) Math.rint((width - newWidth) / 2.0);
    int[][] cut = new int[planes.length][newHeight * newWidth];
    for (int channel = 0; channel < planes.length; ++channel) {
      for (int row = 0; row < newHeight; ++row) {
        System.arraycopy(planes[channel], (top + row) * width + left, cut[channel], row * newWidth, newWidth);
      }
    }
    return new RgbImage(newWidth, newHeight, cut);
  }

  /**
    * Bilinear, with a filter that widens when it shrinks, as in Python's Pillow. Pillow sometimes begins with the
    * columns; since pixels are integers between the two steps, some then differ by one.
   */
  RgbImage resized(int newHeight, int newWidth) {
    int[][] changed = new int[planes.length][];
    for (int channel = 0; channel < planes.length; ++channel) {
      int[] plane = planes[channel];
      if (newWidth != width) plane = resampled(plane, height, width, 1, width, newWidth, newWidth, 1);
      if (newHeight != height) plane = resampled(plane, newWidth, 1, newWidth, height, newHeight, 1, newWidth);
      changed[channel] = plane;
    }
    return new RgbImage(newWidth, newHeight, changed);
  }

  /**
   * Change the length of lines.
   *
    * @param lines the number of lines
    * @param between the distance between lines in {@code plane}, {@code step} between elements
   */
  private static int[] resampled(
      int[] plane, int lines, int between, int step, int length, int newLength, int newBetween, int newStep) {
    int[] result = new int[lines * newLength];
    double scale = (double) length / newLength, support = Math.max(scale, 1.0);
    int[] weights = new int[(int) Math.ceil(support) * 2 + 1];
    for (int index = 0; index < newLength; ++index) {
      double center = (index + 0.5) * scale;
      int begin = Math.max((int) (center - support + 0.5), 0), end = Math.min((int) (center + support + 0.5), length);
      fill(weights, begin, end, center, support);
      for (int line = 0; line < lines; ++line) {
        int sum = 1 << PRECISION_BITS - 1;
        for (int from = begin; from < end; ++from) sum += plane[line * between + from * step] * weights[from - begin];
        result[line * newBetween + index * newStep] = Math.min(Math.max(sum >> PRECISION_BITS, 0), 255);
      }
    }
    return result;
  }

  private static void fill(int[] weights, int begin, int end, double center, double support) {
    double total = 0;
    double[] exact = new double[end - begin];
    for (int index = 0; index < exact.length; ++index) {
      exact[index] = Math.max(1 - Math.abs((index + begin - center + 0.5) * (1.0 / support)), 0);
      total += exact[index];
    }
    for (int index = 0; index < exact.length; ++index) {
      weights[index] = (int) (0.5 + exact[index] / total * (1 << PRECISION_BITS));
    }
  }
}
