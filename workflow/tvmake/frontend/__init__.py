"""Source formats to Relax: one module per format, each returning an ImportedModel."""
