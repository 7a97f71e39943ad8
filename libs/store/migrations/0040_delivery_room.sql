-- Leaves room in each page of deliveries for the row versions that a claim and a settlement write. A new version on the page of the old
-- one needs no index entry. Only pages that are filled from now on have the room.
ALTER TABLE delivery SET (fillfactor = 55);
