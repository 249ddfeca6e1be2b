//! `data/README.md` names every file under `data/`, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_table_names_every_file_and_its_licence() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let page = std::fs::read_to_string(data.join("README.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();

    let named: BTreeSet<String> = rows.iter().map(|row| row[0].trim_matches('`').to_string()).collect();
    assert_eq!(named.len(), rows.len(), "a file has two rows");
    let mut found = BTreeSet::new();
    files(&data, "", &mut found);
    assert!(found.remove("README.md"));
    let (licences, inputs): (BTreeSet<_>, BTreeSet<_>) =
        found.into_iter().partition(|path| path.starts_with("licenses/"));
    assert_eq!(inputs, named, "left: files under data/; right: rows of data/README.md");

    let mut cited = BTreeSet::new();
    for row in rows.iter().filter(|row| !row[0].starts_with("`pictures/")) {
        let [file, source, licence, how] = row[..] else { panic!("four columns: {row:?}") };
        assert!(!source.is_empty() && !how.is_empty(), "{file}");
        let texts: Vec<&str> = licence.split('`').filter(|text| text.starts_with("licenses/")).collect();
        assert!(licence == "as this project" || !texts.is_empty(), "{file}: no licence text");
        cited.extend(texts.into_iter().map(str::to_string));
    }
    assert_eq!(licences, cited, "left: files under data/licenses; right: those that the table cites");
}

/// Paths of all files below `folder`, each after `prefix`.
fn files(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{path}/"), found);
        } else {
            found.insert(path);
        }
    }
}
