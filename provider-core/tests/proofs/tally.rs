//! How many cases of which sort ran, printed as a table at the end.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

static CASES: Mutex<BTreeMap<(String, String, String), usize>> = Mutex::new(BTreeMap::new());

/// Counts one finished case in a table's cell.
pub(crate) fn count(table: &str, row: impl ToString, column: impl ToString) {
    let mut cases = CASES.lock().unwrap_or_else(PoisonError::into_inner);
    *cases.entry((table.to_owned(), row.to_string(), column.to_string())).or_default() += 1;
}

/// Demands that a table's cell is not empty in the end.
pub(crate) fn expect(table: &str, row: impl ToString, column: impl ToString) {
    let mut cases = CASES.lock().unwrap_or_else(PoisonError::into_inner);
    cases.entry((table.to_owned(), row.to_string(), column.to_string())).or_default();
}

/// Prints every table. An empty cell of a table that ran is an error, named in the answer.
pub(crate) fn print() -> Vec<String> {
    let cases = CASES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut empty = Vec::new();
    let mut tables: Vec<&str> = cases.keys().map(|(table, ..)| table.as_str()).collect();
    tables.dedup();
    for table in tables {
        let cells: Vec<_> = cases.iter().filter(|((name, ..), _)| name == table).collect();
        let mut rows: Vec<&str> = cells.iter().map(|((_, row, _), _)| row.as_str()).collect();
        rows.dedup();
        let mut columns: Vec<&str> = cells.iter().map(|((.., column), _)| column.as_str()).collect();
        columns.sort_unstable();
        columns.dedup();
        println!("\n{table}");
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        println!("  {:width$}  {}", "", columns.join("  "));
        for row in rows {
            let mut line = format!("  {row:width$}");
            for column in &columns {
                let number = cases.get(&(table.to_owned(), row.to_owned(), (*column).to_owned()));
                if number.is_none_or(|number| *number == 0) {
                    empty.push(format!("{table}: {row} x {column}"));
                }
                line += &format!("  {:>width$}", number.copied().unwrap_or(0), width = column.len());
            }
            println!("{line}");
        }
    }
    println!("\n{} cases", cases.values().sum::<usize>());
    empty
}

/// How many cases have finished.
pub(crate) fn total() -> usize {
    CASES.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
}
