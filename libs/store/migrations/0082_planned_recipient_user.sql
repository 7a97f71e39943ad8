-- `planned_recipient_person` has the same columns and replaces this index, to which every planned recipient added an entry.
DROP INDEX planned_recipient_user;
