//! What the rows of a criterion run say about each other: what a layer adds, and how that compares.

use std::{collections::HashMap, fmt, fs, io, path::Path};

use serde_json::Value;

/// The medians of one run, in ns, by the full name of the row (`group/row`).
#[derive(Debug)]
pub struct Medians(HashMap<String, f64>);

/// One line of the report: a row, less what it does not answer for.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The full name of the row.
    pub row: &'static str,
    /// The rows whose time belongs to others: the row below it, a clone that any such layer makes.
    pub less: &'static [&'static str],
    /// How often what is measured happens in one iteration: 1 for a call, or the events of a stream.
    pub times: usize,
    /// The row of another [`Line`] to compare with.
    pub peer: Option<&'static str>,
}

/// The results of earlier runs are removed, so that no report mixes runs: on a shared machine only
/// ratios within one run mean anything.
///
/// # Errors
///
/// When the directory is there and cannot be removed.
pub fn forget(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Medians {
    /// Reads what criterion wrote below `directory`; empty where it measured nothing, as when the
    /// benches are run as tests.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or is not what criterion 0.8 writes.
    pub fn read(directory: &Path) -> io::Result<Medians> {
        let mut medians = HashMap::new();
        for group in folders(directory)? {
            for row in folders(&group)? {
                let written = row.join("new");
                if !written.is_dir() {
                    continue;
                }
                let name = json(&written.join("benchmark.json"))?;
                let estimates = json(&written.join("estimates.json"))?;
                match (
                    name["full_id"].as_str(),
                    estimates["median"]["point_estimate"].as_f64(),
                ) {
                    (Some(name), Some(median)) => medians.insert(name.to_owned(), median),
                    _ => {
                        return Err(io::Error::other(format!(
                            "no median in {}",
                            written.display()
                        )));
                    }
                };
            }
        }
        Ok(Medians(medians))
    }

    /// What the row of `line` adds each time, in ns; `None` where a row was not measured.
    fn added(&self, line: &Line) -> Option<f64> {
        let of = |row: &str| self.0.get(row).copied();
        let less: Option<f64> = line.less.iter().map(|row| of(row)).sum();
        Some((of(line.row)? - less?) / line.times as f64)
    }

    /// A table of the lines of which all rows were measured.
    pub fn table<'a>(&'a self, lines: &'a [Line]) -> Table<'a> {
        Table {
            medians: self,
            lines,
        }
    }
}

/// A Markdown table: what each row adds, and to how much of its peer that comes.
#[derive(Debug)]
pub struct Table<'a> {
    medians: &'a Medians,
    lines: &'a [Line],
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medians = self.medians;
        let measured = || {
            self.lines
                .iter()
                .filter_map(|line| Some((line, medians.added(line)?)))
        };
        if measured().next().is_none() {
            return Ok(());
        }
        writeln!(f, "| row | ratio | to | adds ns | median ns | less |")?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- |")?;
        for (line, added) in measured() {
            let peer = self.lines.iter().find(|other| Some(other.row) == line.peer);
            let to = peer.and_then(|peer| Some((peer.row, medians.added(peer)?)));
            let (ratio, to) = match to {
                Some((row, theirs)) => (format!("{:.2}", added / theirs), short(row)),
                None => (String::new(), ""),
            };
            let less: Vec<&str> = line.less.iter().map(|row| short(row)).collect();
            writeln!(
                f,
                "| {} | {ratio} | {to} | {added:.1} | {:.1} | {} |",
                short(line.row),
                medians.0[line.row],
                less.join(" + "),
            )?;
        }
        Ok(())
    }
}

/// The name of a row without its group.
fn short(row: &str) -> &str {
    row.split_once('/').map_or(row, |(_, name)| name)
}

fn folders(directory: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    Ok(folders)
}

fn json(path: &Path) -> io::Result<Value> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}
