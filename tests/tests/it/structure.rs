//! The house rules that can be checked: who may depend on whom, who may use `unsafe`, and that text files and sources
//! say nothing of the machine they were written on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests crate lies in the workspace")
        .to_path_buf()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Rows of ARCHITECTURE.md's crate table: name, folder, allowed dependencies.
fn crate_table() -> Vec<(String, String, BTreeSet<String>)> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let rows: Vec<_> = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, folder, _owns, allowed] = cells[..] else {
                panic!("a row of four cells, not: {line}")
            };
            let allowed = allowed.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from);
            (name.to_owned(), folder.to_owned(), allowed.collect())
        })
        .collect();
    assert!(rows.len() > 10, "ARCHITECTURE.md has its crate table");
    rows
}

fn manifest(folder: &str) -> toml::Table {
    read(&root().join(folder).join("Cargo.toml")).parse().expect("a manifest is TOML")
}

#[test]
fn crates_depend_only_on_what_the_table_allows() {
    let table = crate_table();
    let names: BTreeSet<&str> = table.iter().map(|(name, ..)| name.as_str()).collect();
    let members: BTreeSet<String> = manifest("")["workspace"]["members"]
        .as_array()
        .expect("members is a list")
        .iter()
        .map(|member| member.as_str().expect("a member is text").to_owned())
        .collect();
    assert_eq!(
        members,
        table.iter().map(|(_, folder, _)| folder.clone()).collect(),
        "every member has its row"
    );
    for (name, folder, allowed) in &table {
        let manifest = manifest(folder);
        assert_eq!(manifest["package"]["name"].as_str(), Some(name.as_str()));
        let used = manifest["dependencies"].as_table().expect("dependencies is a table").keys();
        for used in used.filter(|used| names.contains(used.as_str())) {
            assert!(
                allowed.contains(used),
                "{name} depends on {used}: ARCHITECTURE.md's table doesn't allow it"
            );
        }
    }
}

/// Files under version control, from the work tree: sources and texts, without what is built.
fn files() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder can be listed") {
            let path = entry.expect("an entry can be read").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() {
                if !["target", ".git", "data"].contains(&name.as_str()) {
                    walk(&path, found);
                }
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found
}

fn sources() -> BTreeMap<PathBuf, String> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (path.clone(), read(&path)))
        .collect()
}

#[test]
fn only_ring_and_recorder_may_be_unsafe_and_the_others_forbid_it() {
    for (name, folder, _) in crate_table() {
        let library = root().join(&folder).join("src/lib.rs");
        let main = root().join(&folder).join("src/main.rs");
        for path in [library, main].iter().filter(|path| path.exists()) {
            // Theirs is in files of its own, which their lib.rs names.
            if !["ring", "recorder"].contains(&name.as_str()) {
                assert!(
                    read(path).contains("#![forbid(unsafe_code)]"),
                    "{} forbids unsafe code",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_source_file_says_what_it_owns() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!") || text.starts_with("#!"), "{} opens with //!", path.display());
    }
}

#[test]
fn no_source_is_unfinished() {
    let marks = ["TODO", "FIXME", "XXX", "todo!", "unimplemented!", "#[ignore"];
    for (path, text) in sources() {
        if path.ends_with("structure.rs") {
            continue;
        }
        for mark in marks {
            assert!(!text.contains(mark), "{} has {mark}", path.display());
        }
    }
}

#[test]
fn the_exchange_has_no_clock_no_threads_no_files_and_no_randomness() {
    for (path, text) in
        sources().iter().filter(|(path, _)| path.starts_with(root().join("engine/exchange/src")))
    {
        for banned in
            ["std::time", "std::thread", "std::fs", "std::net", "std::io", "rand::", "HashMap<", "Instant"]
        {
            assert!(!text.contains(banned), "{} uses {banned}", path.display());
        }
    }
}
