use bytes::Bytes;
use rpds::RedBlackTreeMapSync;

/// Bytes of a page.
const PAGE: u64 = 64 << 10;

/// Content of a regular file: pages that share memory between versions of the file. Missing pages, and what a
/// page is short of [`PAGE`] bytes, are holes.
#[derive(Clone, Default)]
pub(super) struct Content {
    pages: RedBlackTreeMapSync<u64, Bytes>,
    /// Bytes in pages.
    pub stored: u64,
}

impl Content {
    /// The bytes from `start` up to `end`, holes as zeros.
    pub fn read(&self, start: u64, end: u64) -> Vec<Bytes> {
        let mut segments = Vec::new();
        let mut at = start;
        while at < end {
            let (page, inside) = (at / PAGE, at % PAGE);
            let stop = end.min((page + 1) * PAGE) - page * PAGE;
            let stored = self.pages.get(&page).cloned().unwrap_or_default();
            let known = stop.min(stored.len() as u64);
            if inside < known {
                segments.push(stored.slice(inside as usize..known as usize));
            }
            let zeros = stop - inside.max(known).min(stop);
            if zeros > 0 {
                segments.push(Bytes::from(vec![0; zeros as usize]));
            }
            at = page * PAGE + stop;
        }
        segments
    }

    /// Puts `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (page, inside) = (at / PAGE, (at % PAGE) as usize);
            let part = &data[done..data.len().min(done + PAGE as usize - inside)];
            let mut bytes = self.pages.get(&page).map(|b| b.to_vec()).unwrap_or_default();
            if bytes.len() < inside + part.len() {
                bytes.resize(inside + part.len(), 0);
            }
            bytes[inside..inside + part.len()].copy_from_slice(part);
            self.put(page, bytes.into());
            done += part.len();
        }
    }

    /// Forgets everything from `size` on.
    pub fn cut(&mut self, size: u64) {
        let (page, inside) = (size / PAGE, (size % PAGE) as usize);
        let behind: Vec<u64> = self.pages.range(page..).map(|(&index, _)| index).collect();
        for index in behind {
            let keep = if index == page { inside } else { 0 };
            let bytes = self.pages.get(&index).cloned().unwrap_or_default();
            self.put(index, bytes.slice(..keep.min(bytes.len())));
        }
    }

    fn put(&mut self, page: u64, bytes: Bytes) {
        self.stored += bytes.len() as u64;
        self.stored -= self.pages.get(&page).map_or(0, |old| old.len() as u64);
        if bytes.is_empty() {
            self.pages.remove_mut(&page);
        } else {
            self.pages.insert_mut(page, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &Content, start: u64, end: u64) -> Vec<u8> {
        content.read(start, end).concat()
    }

    #[test]
    fn what_was_cut_reads_as_zeros_after_growing_again() {
        let mut content = Content::default();
        content.write(PAGE - 2, b"abcd");
        assert_eq!(text(&content, PAGE - 3, PAGE + 3), b"\0abcd\0");
        content.cut(PAGE - 1);
        assert_eq!(text(&content, PAGE - 3, PAGE + 3), b"\0a\0\0\0\0");
        assert_eq!(content.stored, PAGE - 1);
    }
}
