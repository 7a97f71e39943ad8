//! Rules for the migrations of the store. `tidings migrate` runs each migration in one transaction, beside services that read and
//! write the same tables, on tables with millions of rows.

use std::collections::BTreeSet;

use crate::{files, read, relative, report, root};

const FOLDER: &str = "libs/store/migrations";
/// File with the list `SMALL` of the tables that stay small. The rules about duration do not apply to these tables.
const PLANS: &str = "libs/store/tests/store/plans.rs";

/// A migration keeps `lock_timeout`, with which it releases its locks after 10 s and starts again.
const LOCK_TIMEOUT: &str = "keeps lock_timeout";
/// A migration does not rewrite or check all rows of a table while it blocks all readers and writers of the table.
const NO_REWRITE: &str = "rewrites no table";
/// A migration that builds an index on an existing table does nothing else, because building blocks the writers of the table, and
/// has no `statement_timeout`.
const INDEX_ALONE: &str = "builds an index alone";
/// A constraint is validated in a later transaction than the one that adds it, because adding blocks all readers and writers.
const VALIDATES_LATER: &str = "validates a constraint later";
/// The previous release runs on the new schema.
const ONLY_ADDS: &str = "only adds to the schema";

/// Reason for the exceptions of migrations that no installation has run on tables with rows.
const BEFORE: &str = "older than 0.2.0, the first release";
/// Numbers of migrations that break a rule, each with the rule and the reason.
const EXCEPTIONS: [(&str, &str, &str); 19] = [
    ("0006", NO_REWRITE, BEFORE),
    ("0007", INDEX_ALONE, BEFORE),
    ("0008", INDEX_ALONE, BEFORE),
    ("0009", INDEX_ALONE, BEFORE),
    ("0010", INDEX_ALONE, BEFORE),
    ("0011", INDEX_ALONE, BEFORE),
    ("0013", INDEX_ALONE, BEFORE),
    ("0015", INDEX_ALONE, BEFORE),
    ("0025", INDEX_ALONE, BEFORE),
    ("0026", INDEX_ALONE, BEFORE),
    ("0027", INDEX_ALONE, BEFORE),
    ("0026", NO_REWRITE, BEFORE),
    ("0043", INDEX_ALONE, "also adds a column to `installation`, which has one row"),
    ("0045", INDEX_ALONE, "the index leaves out all rows that exist: the migration adds its column"),
    ("0047", INDEX_ALONE, "`timer` holds only work of the next days; the other tables are new"),
    (
        "0049",
        INDEX_ALONE,
        "drops the index that it replaces; 0052 and later migrations do this in their own transaction",
    ),
    (
        "0054",
        NO_REWRITE,
        "changes only subscriptions of devices without a secret, and services hardly write these rows",
    ),
    ("0055", INDEX_ALONE, "suppressed addresses are few beside deliveries: 30 s suffice for some million"),
    (
        "0059",
        INDEX_ALONE,
        "also changes `early_receipt`, which keeps receipts only until their attempt is settled",
    ),
];

/// A migration without comments and the bodies of functions. Each string is a question mark.
struct Migration {
    statements: Vec<String>,
}

/// Returns the words of a statement, in lower case and separated by single spaces.
fn plain(statement: &str) -> String {
    statement.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Migration {
    fn parse(text: &str) -> Migration {
        let (mut statements, mut statement, mut rest) = (Vec::new(), String::new(), text);
        while let Some(letter) = rest.chars().next() {
            let skipped = if rest.starts_with("--") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(body) = rest.strip_prefix("$$") {
                body.find("$$").unwrap() + 4
            } else if letter == '\'' {
                statement.push('?');
                rest[1..].find('\'').unwrap() + 2
            } else if letter == ';' {
                statements.push(plain(&statement));
                statement.clear();
                1
            } else {
                statement.push(letter);
                rest = &rest[letter.len_utf8()..];
                continue;
            };
            statement.push(' ');
            rest = &rest[skipped..];
        }
        assert!(statement.trim().is_empty(), "the last statement has no semicolon: {statement}");
        Migration { statements }
    }

    /// Tables that the migration creates.
    fn created(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| word_after(statement, "create table "))
    }

    /// Returns the rules that the migration breaks, each with a statement. The tables of `large` exist and may have many rows.
    fn broken(&self, large: &BTreeSet<String>) -> Vec<(&'static str, &str)> {
        let mut found = Vec::new();
        let builds = self
            .statements
            .iter()
            .any(|statement| built_on(statement).is_some_and(|table| large.contains(table)));
        let unlimited =
            self.statements.iter().any(|statement| statement == "set local statement_timeout = 0");
        let adds_constraint = self.statements.iter().any(|statement| statement.contains(" add constraint "));
        let accompanies = |statement: &&String| {
            if unlimited {
                built_on(statement).is_none() && !statement.contains("statement_timeout")
            } else {
                true
            }
        };
        found.extend(
            self.statements.iter().find(accompanies).filter(|_| builds).map(|other| (INDEX_ALONE, &**other)),
        );
        for statement in &self.statements {
            let has = |part: &str| statement.contains(part);
            if statement.starts_with("set ") && has("lock_timeout") {
                found.push((LOCK_TIMEOUT, &**statement));
            }
            if changed(statement).is_some_and(|table| large.contains(table)) && is_slow(statement) {
                found.push((NO_REWRITE, statement));
            }
            if adds_constraint && has(" validate constraint ") {
                found.push((VALIDATES_LATER, statement));
            }
            let removes =
                ["drop table ", " drop column ", " rename column ", " rename to "].into_iter().any(has);
            if removes && !statement.starts_with("alter index ") || needs_a_value(statement) {
                found.push((ONLY_ADDS, statement));
            }
        }
        found
    }
}

fn word_after<'a>(statement: &'a str, start: &str) -> Option<&'a str> {
    statement.strip_prefix(start)?.split([' ', '(', ',']).next()
}

/// Table on which the statement builds an index.
fn built_on(statement: &str) -> Option<&str> {
    let is_index = statement.starts_with("create index ") || statement.starts_with("create unique index ");
    word_after(statement.split_once(" on ").filter(|_| is_index)?.1, "")
}

/// Table whose rows or definition the statement changes.
fn changed(statement: &str) -> Option<&str> {
    ["alter table only ", "alter table ", "update ", "delete from ", "cluster ", "truncate ", "lock table "]
        .into_iter()
        .find_map(|start| word_after(statement, start))
}

/// Returns true if the statement reads or writes all rows, or may do so.
fn is_slow(statement: &str) -> bool {
    if !statement.starts_with("alter table ") {
        return true;
    }
    clauses(statement).into_iter().any(|clause| {
        let has = |part: &str| clause.contains(part);
        let default_calls = clause.split_once(" default ").is_some_and(|(_, value)| value.contains('('));
        let adds_column = has("add column ");
        has("alter column ") && (has(" type ") || has(" set not null"))
            || [" set tablespace ", " set logged", " set unlogged", " set access method "]
                .into_iter()
                .any(has)
            || has("add ") && !adds_column && !has(" not valid") && !has(" using index ")
            || adds_column
                && (default_calls
                    || [" generated ", "serial", " unique", " primary key", " references ", " check "]
                        .into_iter()
                        .any(has))
    })
}

/// Returns true if the statement adds a column that must have a value, to rows that have none.
fn needs_a_value(statement: &str) -> bool {
    statement.starts_with("alter table ")
        && clauses(statement).into_iter().any(|clause| {
            clause.contains("add column ") && clause.contains(" not null") && !clause.contains(" default ")
        })
}

/// The parts of a statement between commas that are outside parentheses.
fn clauses(statement: &str) -> Vec<&str> {
    let (mut depth, mut start, mut clauses) = (0, 0, Vec::new());
    for (at, letter) in statement.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                clauses.push(&statement[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    clauses.push(&statement[start..]);
    clauses
}

/// Reads the list `SMALL` of the test of execution plans.
fn small_tables() -> BTreeSet<String> {
    let source = read(&root().join(PLANS));
    let list = source.split_once("const SMALL").and_then(|(_, rest)| rest.split_once(';')).unwrap().0;
    let list = list.to_owned() + source.split_once("] = [").unwrap().1.split_once("];").unwrap().0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn migrations_neither_block_services_for_long_nor_remove_what_they_use() {
    let small = small_tables();
    assert!(small.contains("checkpoint") && !small.contains("delivery"), "{small:?}");
    let (mut large, mut problems, mut used) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    let mut paths = files(&root().join(FOLDER), "sql");
    paths.sort();
    assert!(paths.len() > 40, "{} migrations", paths.len());
    for path in paths {
        let migration = Migration::parse(&read(&path));
        let name = relative(&path);
        for (rule, statement) in migration.broken(&large) {
            let exception = EXCEPTIONS
                .iter()
                .position(|(file, excepted, _)| name.contains(&format!("/{file}_")) && *excepted == rule);
            match exception {
                Some(at) => drop(used.insert(at)),
                None => problems.push(format!("{name}: a migration {rule}: {statement}")),
            }
        }
        large.extend(migration.created().filter(|table| !small.contains(*table)).map(str::to_owned));
    }
    let unused = (0..EXCEPTIONS.len()).filter(|at| !used.contains(at));
    problems.extend(unused.map(|at| format!("{FOLDER}: remove the exception {:?}", EXCEPTIONS[at])));
    report(&problems);
}

/// Each rule finds a migration that breaks it, and accepts the way around.
#[test]
fn each_rule_of_migrations_can_fail() {
    let large = BTreeSet::from(["delivery".to_owned()]);
    let cases = [
        (LOCK_TIMEOUT, "SET LOCAL lock_timeout = '5min';"),
        (LOCK_TIMEOUT, "SET lock_timeout TO 0;"),
        (NO_REWRITE, "ALTER TABLE delivery ALTER COLUMN attempts TYPE bigint;"),
        (NO_REWRITE, "ALTER TABLE delivery ALTER COLUMN target SET NOT NULL;"),
        (NO_REWRITE, "ALTER TABLE delivery ADD COLUMN planned_at timestamptz DEFAULT clock_timestamp();"),
        (NO_REWRITE, "ALTER TABLE delivery ADD COLUMN number bigserial;"),
        (NO_REWRITE, "ALTER TABLE delivery ADD COLUMN pace int, ADD COLUMN size int CHECK (size > 0);"),
        (NO_REWRITE, "ALTER TABLE delivery ADD CONSTRAINT delivery_size CHECK (attempts < 100);"),
        (NO_REWRITE, "ALTER TABLE delivery ADD UNIQUE (app_id, target);"),
        (NO_REWRITE, "-- Marks all.\nUPDATE delivery SET detail = 'before; $$';"),
        (NO_REWRITE, "ALTER TABLE delivery SET UNLOGGED;"),
        (INDEX_ALONE, "CREATE INDEX delivery_target ON delivery (target);"),
        (INDEX_ALONE, "SET LOCAL statement_timeout = 0; CREATE INDEX a ON delivery (target); DROP INDEX b;"),
        (
            INDEX_ALONE,
            "SET LOCAL statement_timeout = 0; CREATE UNIQUE INDEX a ON delivery (target); ALTER TABLE delivery ADD COLUMN b int;",
        ),
        (
            VALIDATES_LATER,
            "ALTER TABLE delivery ADD CONSTRAINT a CHECK (b > 0) NOT VALID; ALTER TABLE delivery VALIDATE CONSTRAINT a;",
        ),
        (ONLY_ADDS, "DROP TABLE delivery;"),
        (ONLY_ADDS, "ALTER TABLE delivery DROP COLUMN detail;"),
        (ONLY_ADDS, "ALTER TABLE delivery RENAME COLUMN detail TO details;"),
        (ONLY_ADDS, "ALTER TABLE delivery ADD COLUMN size int NOT NULL;"),
    ];
    for (rule, text) in cases {
        let migration = Migration::parse(text);
        let broken: BTreeSet<_> = migration.broken(&large).into_iter().map(|(rule, _)| rule).collect();
        assert_eq!(broken, BTreeSet::from([rule]), "{text}");
    }
    let good = [
        "SET LOCAL statement_timeout = 0; CREATE INDEX delivery_target ON delivery (target);",
        "DROP INDEX delivery_target; ALTER INDEX delivery_new RENAME TO delivery_target;",
        "ALTER TABLE delivery ADD COLUMN size int NOT NULL DEFAULT 0, ADD COLUMN detail text;",
        "ALTER TABLE delivery ADD CONSTRAINT delivery_size CHECK (size > 0) NOT VALID;",
        "SET LOCAL statement_timeout = 0; ALTER TABLE delivery VALIDATE CONSTRAINT delivery_size;",
        "CREATE TABLE plan (size int NOT NULL CHECK (size > 0)); CREATE INDEX plan_size ON plan (size);",
        "CREATE FUNCTION f() RETURNS trigger AS $$ BEGIN UPDATE delivery SET size = 1; DROP TABLE delivery; END $$;",
        "ALTER TABLE app ADD COLUMN size int CHECK (size > 0);",
        "ALTER TABLE delivery SET (fillfactor = 55);",
    ];
    for text in good {
        assert_eq!(Migration::parse(text).broken(&large), [], "{text}");
    }
}
