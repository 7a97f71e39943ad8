-- How the ids of the send's deliveries are derived: 1 or 2, the numbers of `DeliveryIds` in libs/domain/src/id.rs. NULL: as release 0.3
-- derives them. The ids of a send that is planned again must be the same.
ALTER TABLE request ADD COLUMN delivery_ids smallint;
