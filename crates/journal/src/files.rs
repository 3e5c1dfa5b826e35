use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::{Disk, DiskFile};
use seal::{NodeKey, SegmentKey};

use crate::JournalError;
use crate::layout::{BLOCK, Found, RunHeader};
use crate::segment::SegmentFile;

/// A segment file with the header that opens it.
pub(crate) struct OpenedFile {
    pub file: SegmentFile,
    pub header: RunHeader,
    pub key: SegmentKey,
}

/// The files of a directory, sorted out.
pub(crate) struct Files {
    /// By segment, ascending.
    pub segments: Vec<OpenedFile>,
    /// Without a valid header.
    pub blank: Vec<SegmentFile>,
    /// One whose header is intact and of another key.
    pub foreign: Option<PathBuf>,
    /// Highest number in a file name.
    pub last_index: u64,
}

impl Files {
    pub(crate) fn list(disk: &dyn Disk, directory: &Path, node_key: &NodeKey) -> Result<Files, JournalError> {
        let fail = |what, path: &Path| {
            let path = path.to_owned();
            move |cause| JournalError::Open { what, path, cause: Arc::new(cause) }
        };
        let mut files = Files { segments: Vec::new(), blank: Vec::new(), foreign: None, last_index: 0 };
        for path in disk.list(directory).map_err(fail("listing", directory))? {
            let Some(index) = SegmentFile::index(&path) else { continue };
            files.last_index = files.last_index.max(index);
            let file: Arc<dyn DiskFile> = disk.open(&path, false).map_err(fail("opening", &path))?.into();
            let bytes = file.length().map_err(fail("reading", &path))?;
            let file = SegmentFile { file, path, bytes };
            match files.header(&file, node_key)? {
                Some((header, key)) => files.segments.push(OpenedFile { file, header, key }),
                None => files.blank.push(file),
            }
        }
        files.segments.sort_by_key(|opened| opened.header.segment);
        let mut neighbours = files.segments.windows(2);
        if let Some([one, other]) = neighbours.find(|pair| pair[0].header.segment == pair[1].header.segment) {
            let (path, other) = (one.file.path.clone(), other.file.path.clone());
            return Err(JournalError::SameSegment { path, other });
        }
        Ok(files)
    }

    fn header(
        &mut self,
        file: &SegmentFile,
        node_key: &NodeKey,
    ) -> Result<Option<(RunHeader, SegmentKey)>, JournalError> {
        let mut block = vec![0; BLOCK as usize];
        for at in [0, BLOCK] {
            if file.bytes < at + BLOCK {
                break;
            }
            file.file.read_exact_at(&mut block, at).map_err(|cause| JournalError::Open {
                what: "reading",
                path: file.path.clone(),
                cause: Arc::new(cause),
            })?;
            let found = RunHeader::decode(&block, node_key, at);
            if matches!(found, Found::OtherKey) {
                self.foreign = Some(file.path.clone());
            }
            if let Some(found) = found.header(&file.path)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
