//! Small disks: a tmpfs each, in a mount namespace of the test's own, which ends with the test.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set for the run of a test inside its namespace: where its disks may be mounted.
const INSIDE: &str = "RINGPIT_TEST_INSIDE_NAMESPACE";

/// Ways into a namespace where this process may mount: as root, or as a user who may be one inside.
const NAMESPACES: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];

/// Runs `test`, which is all that the test called `name` does, in a namespace where it may mount; or says that it skips. `test` is
/// given an empty folder.
pub(crate) fn within(name: &str, test: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return test(Path::new(&folder));
    }
    let mount_point = tempfile::tempdir().expect("a folder");
    let run = |program: &Path, arguments: &[&str], namespace: &[&str]| {
        Command::new("unshare")
            .args(namespace)
            .arg("--")
            .arg(program)
            .args(arguments)
            .env(INSIDE, mount_point.path())
            .output()
    };
    let probe = ["-t", "tmpfs", "none", mount_point.path().to_str().expect("a path of text")];
    let possible = NAMESPACES.iter().find(|namespace| {
        run(Path::new("mount"), &probe, namespace).is_ok_and(|output| output.status.success())
    });
    let Some(namespace) = possible else {
        println!(
            "SKIPPED: no small disk can be mounted here: that needs root, or a kernel that lets users make namespaces"
        );
        return;
    };
    let own = std::env::current_exe().expect("a test knows its own file");
    let output = run(&own, &[name, "--exact", "--nocapture"], namespace).expect("the test runs itself");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[track_caller]
fn mount(arguments: &[&str]) {
    let output = Command::new("mount").args(arguments).output().expect("mount runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A small disk, and a file that takes room away.
pub(crate) struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// An empty disk of so many MiB at a folder that is there.
    pub(crate) fn new(folder: &Path, mib: u64) -> Self {
        let size = format!("size={mib}m");
        mount(&["-t", "tmpfs", "-o", &size, "none", folder.to_str().expect("a path of text")]);
        Self { folder: folder.to_owned() }
    }

    fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(&self.folder).expect("a file system tells its space");
        stat.f_bavail * stat.f_frsize
    }

    /// Takes room until only so many bytes are free.
    pub(crate) fn leave(&self, free: u64) {
        let taken = self.free().saturating_sub(free);
        let mut file = File::options().create(true).append(true).open(self.ballast()).expect("a file");
        // What does not fit any more leaves the disk as full as it can be.
        let _ = file.write_all(&vec![1; usize::try_from(taken).expect("it fits into memory")]);
    }

    /// Gives the room back.
    pub(crate) fn relieve(&self) {
        fs::remove_file(self.ballast()).expect("there is ballast");
    }

    /// Makes the disk so many MiB large.
    pub(crate) fn grow(&self, mib: u64) {
        let size = format!("remount,size={mib}m");
        mount(&["-o", &size, self.folder.to_str().expect("a path of text")]);
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}
