//! The calls to the file system that decide what survives a crash, and who may read it.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::OpenError;

/// The owner may read and write; nobody else may do anything.
const PRIVATE: u32 = 0o600;
/// What a group and others may do.
const OTHERS: u32 = 0o077;

/// The calls after which bytes and names survive. Tests make them fail.
pub(crate) trait Disk: Send {
    /// Waits until a file's bytes are on disk.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Gives a file another name. A file that had this name has none any more.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Waits until the names in a file's folder are on disk.
    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

/// The operating system's.
pub(crate) struct SystemDisk;

impl Disk for SystemDisk {}

/// Makes an empty file that its owner alone may use, whatever the umask, and replaces one that exists.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => open_private(path, OpenOptions::new().create_new(true)),
    }
}

/// Opens a file for writing, or makes it, so that its owner alone may use it.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    open_private(path, OpenOptions::new().create(true))
}

fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.write(true).mode(PRIVATE).open(path)?;
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    Ok(file)
}

/// Refuses a file that a group or others may use: it holds a secret, or what passwords are proven by.
///
/// # Errors
/// [`OpenError::Exposed`], or [`OpenError::Io`] if the file can't be looked at.
pub fn check_private(path: &Path) -> Result<(), OpenError> {
    let metadata = fs::metadata(path).map_err(|error| OpenError::Io(path.to_owned(), error))?;
    check_mode(path, &metadata.permissions())
}

pub(crate) fn check_mode(path: &Path, permissions: &Permissions) -> Result<(), OpenError> {
    match permissions.mode() & 0o777 {
        mode if mode & OTHERS == 0 => Ok(()),
        mode => Err(OpenError::Exposed(path.to_owned(), mode)),
    }
}
