//! Rows of results: printed as a table as they come, or as one JSON object a line.

use serde::Serialize;

/// One measured figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured: `group/name`.
    pub(crate) row: String,
    /// The figure.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What it is held against, taken in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<String>,
    /// The figure divided by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    /// Conditions that the figure depends on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}

impl Row {
    /// A figure without a comparison.
    pub(crate) fn new(row: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { row: row.into(), value, unit, limit: None, ratio: None, note: String::new() }
    }

    /// Adds what it is held against.
    #[must_use]
    pub(crate) fn against(mut self, limit: impl Into<String>, value: f64) -> Self {
        self.limit = Some(limit.into());
        self.ratio = Some(self.value / value);
        self
    }

    /// Adds the conditions.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// Where rows go.
pub(crate) struct Table {
    json: bool,
    rows: Vec<Row>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub(crate) fn new(json: bool) -> Self {
        if !json {
            println!("{:<34} {:>14} {:<12} {:>8}  against; conditions", "row", "value", "unit", "ratio");
        }
        Self { json, rows: Vec::new() }
    }

    /// Prints a row at once and keeps it for later comparisons.
    pub(crate) fn push(&mut self, row: Row) {
        if self.json {
            println!("{}", serde_json::to_string(&row).expect("a row is plain data"));
        } else {
            let ratio = row.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
            let limit = row.limit.as_deref().unwrap_or_default();
            println!(
                "{:<34} {:>14} {:<12} {:>8}  {limit}{}{}",
                row.row,
                number(row.value),
                row.unit,
                ratio,
                if limit.is_empty() || row.note.is_empty() { "" } else { "; " },
                row.note
            );
        }
        self.rows.push(row);
    }

    /// The figure of a row that was measured before in this run.
    #[must_use]
    pub(crate) fn value(&self, row: &str) -> Option<f64> {
        self.rows.iter().find(|candidate| candidate.row == row).map(|candidate| candidate.value)
    }
}

/// A figure with thousands separators, and decimals only where it is small.
fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 && digit.is_ascii_digit() && !out.ends_with('-') {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}
