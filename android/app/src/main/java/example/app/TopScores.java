package example.app;

import java.util.ArrayList;
import java.util.List;
import tvmake.DType;
import tvmake.Tensor;

/** The classes with the highest scores. */
final class TopScores {
  /** A class, its score, and its name if known. */
  static final class Score {
    final int index;
    final double score;
    final String label;

    Score(int index, double score, String label) {
      this.index = index;
      this.score = score;
      this.label = label;
    }

    @Override
    public String toString() {
      return String.format(java.util.Locale.ROOT, "%5d  %-12.6g %s", index, score, label).trim();
    }
  }

  private TopScores() {}

  /**
    * The highest scores of one sample, the highest first; the first of equal ones. NaN is left out.
   *
   * @param labels names of the classes in order; there may be fewer, or none
   */
  static List<Score> of(Tensor scores, int count, List<String> labels) {
    double[] values = numbers(scores);
    boolean[] isTaken = new boolean[values.length];
    List<Score> found = new ArrayList<>();
    while (found.size() < count) {
      int best = -1;
      for (int index = 0; index < values.length; ++index) {
        boolean isHigher = best < 0 || values[index] > values[best];
        if (!isTaken[index] && !Double.isNaN(values[index]) && isHigher) best = index;
      }
      if (best < 0) break;
      isTaken[best] = true;
      found.add(new Score(best, values[best], best < labels.size() ? labels.get(best) : ""));
    }
    return found;
  }

  private static double[] numbers(Tensor scores) {
    double[] values = new double[scores.size()];
    for (int index = 0; index < values.length; ++index) values[index] = number(scores, index);
    return values;
  }

  private static double number(Tensor scores, int index) {
    DType dtype = scores.dtype();
    int offset = index * dtype.bytes();
    switch (dtype) {
      case FLOAT32:
        return scores.bytes().getFloat(offset);
      case FLOAT64:
        return scores.bytes().getDouble(offset);
      case INT8:
        return scores.bytes().get(offset);
      case UINT8:
        return scores.bytes().get(offset) & 0xFF;
      case INT32:
        return scores.bytes().getInt(offset);
      case INT64:
        return scores.bytes().getLong(offset);
      default:
        throw new IllegalArgumentException("output " + scores + " has no scores that the app can read");
    }
  }
}
