package example.app;

import java.nio.ByteBuffer;
import java.util.Properties;
import tvmake.DType;
import tvmake.Tensor;
import tvmake.TensorSpec;

/**
  * Converts an image into a network's input, by the keys of {@code app.properties}: color, resize, crop, scale, mean, std,
  * layout, in this order and with the meaning of tvmake's {@code dataset.preprocess}.
 */
final class ImageInput {
  private final TensorSpec spec;
  private final int channels;
  private final boolean isChannelsFirst;
  private final String color;
  private final int[] resize; // one number, two or none
  private final int[] crop;
  private final float scale;
  private final float[] mean;
  private final float[] std;
  private final Tensor tensor;

  ImageInput(TensorSpec spec, Properties settings) {
    this.spec = spec;
    long[] shape = spec.shape();
    if (shape.length < 3 || shape.length > 4 || (shape[0] != 1 && shape[0] != TensorSpec.DYNAMIC)) {
      throw new IllegalArgumentException("input " + spec + " does not accept one image");
    }
    if (spec.dtype() != DType.FLOAT32 && spec.dtype() != DType.UINT8 && spec.dtype() != DType.INT8) {
      throw new IllegalArgumentException("input " + spec + ": images are converted to float32, uint8 or int8");
    }
    shape[0] = 1;
    isChannelsFirst = shape.length == 3 || isChannelsFirst(settings.getProperty("layout"), shape);
    channels = shape.length == 3 ? 1 : (int) (isChannelsFirst ? shape[1] : shape[3]);
    if (channels != 1 && channels != 3) throw new IllegalArgumentException("input " + spec + " does not have 1 or 3 channels");
    color = settings.getProperty("color", channels == 1 ? "gray" : "RGB");
    resize = whole(settings.getProperty("resize", ""));
    crop = whole(settings.getProperty("crop", ""));
    float usual = spec.dtype() == DType.FLOAT32 ? (float) (1 / 255.0) : 1f;
    scale = settings.containsKey("scale") ? Float.parseFloat(settings.getProperty("scale").trim()) : usual;
    mean = perChannel("mean", settings.getProperty("mean", "0"));
    std = perChannel("std", settings.getProperty("std", "1"));
    int[] size = sizeAfter(shape);
    shape[shape.length == 3 || isChannelsFirst ? shape.length - 2 : 1] = size[0];
    shape[shape.length == 3 || isChannelsFirst ? shape.length - 1 : 2] = size[1];
    tensor = Tensor.allocate(spec.dtype(), shape);
  }

  /** The image in the network's format; the tensor is reused for the next one. */
  Tensor of(RgbImage image) {
    RgbImage changed = color.equals("gray") ? image.gray() : color.equals("BGR") ? image.reversed() : image;
    if (resize.length == 2) {
      changed = changed.resized(resize[0], resize[1]);
    } else if (resize.length == 1) {
      int height = changed.height, width = changed.width, side = resize[0];
      boolean isWide = height <= width;
      changed =
          changed.resized(
              isWide ? side : Math.max((int) ((double) ((long) side * height) / width), 1),
              isWide ? Math.max((int) ((double) ((long) side * width) / height), 1) : side);
    }
    if (crop.length > 0) changed = changed.cropped(crop[0], crop[crop.length - 1]);
    int[] wanted = sizeAfter(tensor.shape());
    if (changed.height != wanted[0] || changed.width != wanted[1]) {
      throw new IllegalArgumentException(
          "the image is " + changed.height + "×" + changed.width + " after preprocessing, and the network takes " + spec
              + "\n  app.properties: resize and crop");
    }
    write(changed);
    return tensor;
  }

  private void write(RgbImage image) {
    ByteBuffer bytes = tensor.bytes();
    int pixels = image.width * image.height;
    for (int number = 0; number < pixels * channels; ++number) {
      int channel = isChannelsFirst ? number / pixels : number % channels;
      int index = isChannelsFirst ? number % pixels : number / channels;
      float value = (image.planes[channel][index] * scale - mean[channel % mean.length]) / std[channel % std.length];
      if (spec.dtype() == DType.FLOAT32) bytes.putFloat(value);
      else bytes.put(whole(value));
    }
  }

  private byte whole(float value) {
    double number = Math.rint(value);
    boolean isSigned = spec.dtype() == DType.INT8;
    if (number < (isSigned ? -128 : 0) || number > (isSigned ? 127 : 255)) {
      throw new IllegalArgumentException(
          "a pixel becomes " + value + ", which " + spec.dtype() + " cannot hold\n  app.properties: scale and mean");
    }
    return (byte) (int) number;
  }

  /** Height and width of the input: the package's if they are fixed, else those of the settings. */
  private int[] sizeAfter(long[] shape) {
    int first = shape.length == 3 || !isChannelsFirst ? 1 : 2;
    int[] size = {(int) shape[first], (int) shape[first + 1]};
    int[] made = crop.length > 0 ? crop : resize.length == 2 ? resize : new int[0];
    for (int axis = 0; axis < 2; ++axis) {
      if (size[axis] != TensorSpec.DYNAMIC) continue;
      if (made.length == 0) {
        throw new IllegalArgumentException("input " + spec + " has a dynamic size\n  app.properties: set crop");
      }
      size[axis] = made[axis % made.length];
    }
    return size;
  }

  private static boolean isChannelsFirst(String layout, long[] shape) {
    if (layout != null) return layout.trim().equals("NCHW");
    boolean isLast = (shape[3] == 1 || shape[3] == 3) && shape[1] != 1 && shape[1] != 3;
    return !isLast;
  }

  private float[] perChannel(String key, String text) {
    String[] words = text.trim().split("[\\s,]+");
    float[] numbers = new float[words.length];
    for (int index = 0; index < words.length; ++index) numbers[index] = Float.parseFloat(words[index]);
    if (numbers.length == 1 || numbers.length == channels) return numbers;
    throw new IllegalArgumentException(
        "app.properties: " + key + " has " + numbers.length + " numbers, input " + spec + " has " + channels + " channels");
  }

  private static int[] whole(String text) {
    String[] words = text.trim().isEmpty() ? new String[0] : text.trim().split("[\\s,]+");
    int[] numbers = new int[words.length];
    for (int index = 0; index < words.length; ++index) numbers[index] = Integer.parseInt(words[index]);
    return numbers;
  }
}
