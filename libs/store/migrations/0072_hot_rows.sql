-- Rows that are updated all the time are found by their newest version, which has the highest address among the entries of its key in the
-- index. Without deduplication, a scan in descending order reads that entry first; the addresses in a merged entry come in ascending order.
ALTER INDEX checkpoint_pkey SET (deduplicate_items = off);
ALTER INDEX inbox_counter_pkey SET (deduplicate_items = off);
-- A new version on the page of the old one needs no index entry. Only pages that are filled from now on have the room.
ALTER TABLE inbox_counter SET (fillfactor = 20);
