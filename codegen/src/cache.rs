//! Blocks of bytes kept from one process to the next, in a folder of the user's: compiled objects, and what leads to them.
//!
//! `SUMSQ_CACHE` names the folder, or says `off`; by default it is `sumsq` in the user's cache folder. A block is found by the hash of all that it
//! was made from, and is checked against its own hash before it is used; what fails the check is removed, and counts as absent. Blocks
//! appear under their names only when they are complete, so that processes may share a folder. As code is loaded from it, the folder has to belong
//! to the user, and nobody else may write to it. Nothing that goes wrong here is an error: it costs a compilation.

use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Bytes that the folder may hold: some thousand energies.
const LARGEST: u64 = 256 << 20;

/// Bytes of a hash.
const HASH: usize = blake3::OUT_LEN;

/// Hash of all that a block was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Key([u8; HASH]);

impl Key {
    /// The key of a value: another one for every other value of its type.
    pub fn of(what: &(impl Hash + ?Sized)) -> Key {
        let mut digest = Digest(blake3::Hasher::new());
        what.hash(&mut digest);
        Key(digest.0.finalize().into())
    }

    /// Its name: hexadecimal digits.
    pub fn name(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

/// Takes what [`Hash`] gives, all of it.
struct Digest(blake3::Hasher);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.finalize().as_bytes()[..8].try_into().expect("eight bytes"))
    }
}

/// A folder of blocks.
#[derive(Clone, PartialEq, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The user's; none if it is turned off, or if there is no folder that is safe to load code from.
    pub fn of_user() -> Option<Cache> {
        let folder = match std::env::var_os("SUMSQ_CACHE") {
            Some(off) if off == "off" => return None,
            Some(folder) if !folder.is_empty() => PathBuf::from(folder),
            _ => {
                let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
                let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
                caches.filter(|c| c.is_absolute()).or_else(home)?.join("sumsq")
            }
        };
        Cache::at(folder)
    }

    /// The one in `folder`, which is made if it is not there; none if somebody else could write to it.
    pub fn at(folder: PathBuf) -> Option<Cache> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
        let (of, own) = (fs::metadata(&folder).ok()?, fs::metadata("/proc/self").ok()?);
        (of.is_dir() && of.uid() == own.uid() && of.mode() & 0o022 == 0).then_some(Cache { folder })
    }

    /// The block of a key, if it is there and whole.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut bytes = fs::read(&path).ok()?;
        let end = bytes.len().checked_sub(HASH);
        let whole = end.filter(|&end| seal(key, &bytes[..end]).as_bytes()[..] == bytes[end..]);
        match whole {
            Some(end) => bytes.truncate(end),
            None => {
                let _ = fs::remove_file(&path);
                return None;
            }
        }
        // The oldest are removed first: this one is in use.
        let _ = File::open(&path).and_then(|f| f.set_modified(SystemTime::now()));
        Some(bytes)
    }

    /// Keeps a block.
    pub fn put(&self, key: &Key, bytes: &[u8]) {
        static SWEPT: Once = Once::new();
        if self.write(key, bytes).is_ok() {
            SWEPT.call_once(|| self.shrink(LARGEST));
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(key.name())
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!("{}.{number}.part", std::process::id()));
        let written = write_new(&part, &[bytes, seal(key, bytes).as_bytes()])
            .and_then(|()| fs::rename(&part, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }

    /// Removes the blocks that were not used for the longest time, until what is left has at most half of `largest` bytes, if it has more
    /// than `largest` now. What a process left half written goes, too.
    fn shrink(&self, largest: u64) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|e| {
                let e = e.ok()?;
                let of = e.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((of.modified().ok()?, of.len(), e.path()))
            })
            .collect();
        let mut all: u64 = files.iter().map(|f| f.1).sum();
        if all <= largest {
            return;
        }
        files.sort();
        for (_, bytes, path) in files {
            if all <= largest / 2 {
                return;
            }
            if fs::remove_file(path).is_ok() {
                all -= bytes;
            }
        }
    }
}

/// The hash behind a block: of its key and bytes.
fn seal(key: &Key, bytes: &[u8]) -> blake3::Hash {
    blake3::keyed_hash(&key.0, bytes)
}

fn write_new(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_block_comes_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("of/sumsq")).unwrap();
        let (key, other) = (Key::of(&["a", "b"]), Key::of(&["ab", ""]));
        assert_ne!(key, other);
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"some code");
        assert_eq!(cache.get(&key).unwrap(), b"some code");
        // Under another key it is not what was asked for.
        fs::copy(cache.path(&key), cache.path(&other)).unwrap();
        assert_eq!(cache.get(&other), None);
        let whole = fs::read(cache.path(&key)).unwrap();
        for bit in 0..8 * whole.len() {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(cache.path(&key), &damaged).unwrap();
            assert_eq!(cache.get(&key), None, "bit {bit}");
        }
        for length in 0..whole.len() {
            fs::write(cache.path(&key), &whole[..length]).unwrap();
            assert_eq!(cache.get(&key), None, "{length} bytes");
        }
        assert!(!cache.path(&key).exists());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Cache::at(folder.path().into()), None);
        assert_eq!(Cache::at("/dev/null".into()), None);
    }

    #[test]
    fn the_oldest_blocks_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("c")).unwrap();
        let keys: Vec<Key> = (0..10).map(|i| Key::of(&i)).collect();
        for (age, key) in keys.iter().rev().enumerate() {
            cache.write(key, &[0; 1000]).unwrap();
            let then = SystemTime::now() - std::time::Duration::from_secs(60 * age as u64);
            File::options().append(true).open(cache.path(key)).unwrap().set_modified(then).unwrap();
        }
        cache.shrink(20_000);
        assert!(keys.iter().all(|k| cache.get(k).is_some()));
        for (age, key) in keys.iter().rev().enumerate() {
            let then = SystemTime::now() - std::time::Duration::from_secs(60 * age as u64);
            File::options().append(true).open(cache.path(key)).unwrap().set_modified(then).unwrap();
        }
        cache.shrink(8000);
        let left: Vec<bool> = keys.iter().map(|k| cache.get(k).is_some()).collect();
        assert_eq!(left, [[false; 7].as_slice(), &[true; 3]].concat());
    }
}
