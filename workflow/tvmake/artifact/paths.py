"""The directories of a run, as patterns. Which files lie in them, the stages declare."""

RUN = "{results}"
MODEL = RUN + "/{model}"
TRANSFORMED = MODEL + "/{precision}"
CANDIDATE = TRANSFORMED + "/layouts/{layout}"
VARIANT = TRANSFORMED + "/{target}"
ASSIGNED = VARIANT + "/assigned"
ROUND = RUN + "/tuning/{target}/round{number}"

HISTORY = "history"
"""The directory in the results with the summaries of earlier runs, which cannot be made again."""
