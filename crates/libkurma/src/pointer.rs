//! What callers give, looked at before it is used.

use std::ffi::{CStr, c_char};

use crate::outcome::Refusal;

/// Longest text that is taken from a caller.
const TEXT: usize = 1 << 20;

/// What `pointer` points to.
///
/// # Safety
/// It is NULL, or points to a valid `T` that nobody changes while the reference is used.
pub(crate) unsafe fn given<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Refusal> {
    check(pointer, name)?;
    // SAFETY: neither NULL nor misaligned; the rest is the caller's.
    Ok(unsafe { &*pointer })
}

/// Sets what `pointer` points to, which need not have been set before.
///
/// # Safety
/// It is NULL, or points to memory for a `T` that nobody else uses.
pub(crate) unsafe fn set<T>(pointer: *mut T, name: &'static str, value: T) -> Result<(), Refusal> {
    check(pointer, name)?;
    // SAFETY: neither NULL nor misaligned; the rest is the caller's.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Whether there can be a `T` here.
pub(crate) fn check<T>(pointer: *const T, name: &'static str) -> Result<(), Refusal> {
    if pointer.is_null() {
        return Err(Refusal::invalid(format!("{name} is NULL")));
    }
    if !pointer.is_aligned() {
        return Err(Refusal::invalid(format!("{name} is not aligned")));
    }
    Ok(())
}

/// Whether there can be an array here.
pub(crate) fn check_array<T>(pointer: *const T, count: usize, name: &'static str) -> Result<(), Refusal> {
    if count == 0 {
        return Ok(());
    }
    check(pointer, name)?;
    let bytes = count.checked_mul(size_of::<T>());
    let end = bytes.and_then(|bytes| pointer.addr().checked_add(bytes));
    match (bytes, end) {
        (Some(bytes), Some(_)) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Refusal::invalid(format!("{name}: {count} elements are more than there is memory"))),
    }
}

/// An array; without elements it may be NULL.
///
/// # Safety
/// It has `count` valid elements that nobody changes while the slice is used.
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    count: usize,
    name: &'static str,
) -> Result<&'a [T], Refusal> {
    check_array(pointer, count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: neither NULL, misaligned nor too long; the rest is the caller's.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// A string without the NUL at its end; `None` for NULL.
///
/// # Safety
/// It is NULL, or has a NUL at its end and is not changed while it is used.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Result<Option<&'a [u8]>, Refusal> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: of the caller.
    let length = unsafe { libc::strnlen(pointer, TEXT) };
    if length == TEXT {
        return Err(Refusal { status: libc::ENAMETOOLONG, what: "a string of 1 MiB or more".into() });
    }
    // SAFETY: so many bytes and a NUL are there.
    let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length + 1) };
    Ok(CStr::from_bytes_with_nul(bytes).ok().map(CStr::to_bytes))
}

/// A string that has to be there.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn string<'a>(pointer: *const c_char, name: &'static str) -> Result<&'a [u8], Refusal> {
    // SAFETY: of the caller.
    unsafe { text(pointer) }?.ok_or_else(|| Refusal::invalid(format!("{name} is NULL")))
}

/// Refuses bits that mean nothing yet, so that they may mean something one day.
pub(crate) fn check_flags(flags: u32, known: u32) -> Result<(), Refusal> {
    match flags & !known {
        0 => Ok(()),
        unknown => Err(Refusal::invalid(format!("flags {unknown:#x} mean nothing here"))),
    }
}

/// The same for fields.
pub(crate) fn check_reserved(fields: &[u64]) -> Result<(), Refusal> {
    match fields.iter().all(|field| *field == 0) {
        true => Ok(()),
        false => Err(Refusal::invalid("a reserved field is not 0; zero the struct before filling it in")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_an_array_is_refused() {
        let one = 7_u64;
        let name = "numbers";
        assert!(check_array::<u64>(std::ptr::null(), 0, name).is_ok());
        assert!(check_array::<u64>(std::ptr::null(), 1, name).is_err());
        assert!(check_array(&raw const one, 1, name).is_ok());
        assert!(check_array(&raw const one, usize::MAX / 8, name).is_err());
        assert!(check_array(&raw const one, usize::MAX, name).is_err());
        assert!(check_array((&raw const one).wrapping_byte_add(1), 1, name).is_err());
    }

    #[test]
    fn a_string_has_an_end() {
        // SAFETY: strings with an end, and one whose bytes are enough to be refused.
        unsafe {
            assert_eq!(text(c"abc".as_ptr()).unwrap(), Some(&b"abc"[..]));
            assert_eq!(text(c"".as_ptr()).unwrap(), Some(&b""[..]));
            assert_eq!(text(std::ptr::null()).unwrap(), None);
            let endless = vec![b'a'; TEXT];
            assert_eq!(text(endless.as_ptr().cast()).unwrap_err().status, libc::ENAMETOOLONG);
        }
    }
}
