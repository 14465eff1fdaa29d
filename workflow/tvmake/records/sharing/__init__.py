"""Exchange of records: exported files and stores that several machines share."""
