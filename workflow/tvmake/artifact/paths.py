"""The directories of a run, as patterns; the stages declare their files."""

RUN = "{results}"
MODEL = RUN + "/{model}"
TRANSFORMED = MODEL + "/{precision}"
CANDIDATE = TRANSFORMED + "/layouts/{layout}"
VARIANT = TRANSFORMED + "/{target}"
JOINED = RUN + "/{group}/{precision}/{target}"
ASSIGNED = VARIANT + "/assigned"
ROUND = RUN + "/tuning/{target}/round{number}"

HISTORY = "history"
"""The directory in the results for summaries of earlier runs, which cannot be rebuilt."""
