use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::{Disk, DiskFile};
use seal::{NodeKey, SegmentKey};

use crate::JournalError;
use crate::layout::{BLOCK, Found, RUN_HEADER, RunHeader};
use crate::segment::SegmentFile;

/// A segment file with the header that opens it.
pub(crate) struct OpenedFile {
    pub file: SegmentFile,
    pub header: RunHeader,
    pub key: SegmentKey,
    /// Both copies are there and the same. When they are not, the file may hold a header that a torn write of another segment left.
    pub is_whole: bool,
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
                Some((header, key, is_whole)) => {
                    files.segments.push(OpenedFile { file, header, key, is_whole });
                }
                None => files.blank.push(file),
            }
        }
        files.segments.sort_by_key(|opened| opened.header.segment);
        Ok(files)
    }

    /// Fails when two files hold the same segment.
    pub(crate) fn are_distinct(&self) -> Result<(), JournalError> {
        let mut neighbours = self.segments.windows(2);
        match neighbours.find(|pair| pair[0].header.segment == pair[1].header.segment) {
            Some([one, other]) => {
                Err(JournalError::SameSegment { path: one.file.path.clone(), other: other.file.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// The header of a file with its key, and whether it is there twice.
    fn header(
        &mut self,
        file: &SegmentFile,
        node_key: &NodeKey,
    ) -> Result<Option<(RunHeader, SegmentKey, bool)>, JournalError> {
        let mut blocks = vec![0; RUN_HEADER.min(file.bytes) as usize];
        file.file.read_exact_at(&mut blocks, 0).map_err(|cause| JournalError::Open {
            what: "reading",
            path: file.path.clone(),
            cause: Arc::new(cause),
        })?;
        let copy = |at: u64| match blocks.get(at as usize..) {
            Some(block) => RunHeader::decode(block, node_key, at),
            None => Found::Nothing,
        };
        for at in [0, BLOCK] {
            let found = copy(at);
            if matches!(found, Found::OtherKey) {
                self.foreign = Some(file.path.clone());
            }
            if let Some((header, key)) = found.header(&file.path)? {
                let is_whole = at == 0 && matches!(copy(BLOCK), Found::Header(other, _) if other == header);
                return Ok(Some((header, key, is_whole)));
            }
        }
        Ok(None)
    }
}
