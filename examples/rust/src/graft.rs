//! graft for Rust: handles that free themselves, errors as `Result`, and answers read in place for as long as the borrow lasts.

use crate::ffi;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::{c_char, c_int};
use std::ptr;

/// What went wrong: a code such as "op.shape", the place, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: String,
    pub place: String,
    pub detail: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.code, self.place, self.detail)
    }
}
impl std::error::Error for Error {}

unsafe fn text(from: *const c_char) -> String {
    CStr::from_ptr(from).to_string_lossy().into_owned()
}

/// Calls a function that takes `graft_error**` last; its error where it leaves one.
fn call<T>(function: impl FnOnce(*mut *mut ffi::Error) -> T) -> Result<T, Error> {
    let mut error = ptr::null_mut();
    let answer = function(&mut error);
    if error.is_null() {
        return Ok(answer);
    }
    unsafe {
        let told = Error {
            code: text(ffi::graft_error_code(error)),
            place: text(ffi::graft_error_where(error)),
            detail: text(ffi::graft_error_detail(error)),
        };
        ffi::graft_error_free(error);
        Err(told)
    }
}

fn c_string(given: &str) -> Result<CString, Error> {
    CString::new(given).map_err(|_| Error {
        code: "usage".into(),
        place: given.escape_default().to_string(),
        detail: "a text with a zero byte cannot be given to C".into(),
    })
}

/// A loaded network. Any number of threads may share it.
pub struct Model {
    handle: *mut ffi::Model,
}
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    pub fn load(path: &str) -> Result<Model, Error> {
        assert_eq!(
            unsafe { ffi::graft_abi_version() },
            ffi::GRAFT_ABI_VERSION,
            "libgraft has another ABI"
        );
        let path = c_string(path)?;
        let handle =
            call(|error| unsafe { ffi::graft_model_load(path.as_ptr(), ptr::null(), error) })?;
        Ok(Model { handle })
    }

    /// The name and the extents of an input, open ones as -1.
    pub fn input(&self, index: usize) -> Option<(String, Vec<i64>)> {
        unsafe {
            let value = ffi::graft_model_input(self.handle, index);
            if value.is_null() {
                return None;
            }
            let extents = (0..ffi::graft_value_rank(value))
                .map(|axis| ffi::graft_value_extent(value, axis))
                .collect();
            Some((text(ffi::graft_value_name(value)), extents))
        }
    }
}
impl Drop for Model {
    fn drop(&mut self) {
        unsafe { ffi::graft_model_free(self.handle) }
    }
}

/// One caller's way into a model: bring one a thread.
pub struct Session {
    handle: *mut ffi::Session,
}
unsafe impl Send for Session {}

impl Session {
    pub fn new(model: &Model) -> Result<Session, Error> {
        let handle =
            call(|error| unsafe { ffi::graft_session_new(model.handle, ptr::null(), error) })?;
        Ok(Session { handle })
    }

    /// Runs a model with one input of float32 on `data`, which is not copied. What it answers is read in place, until the next run: its shape, and its numbers.
    pub fn run(&mut self, data: &[f32], shape: &[i64]) -> Result<(&[i64], &[f32]), Error> {
        let bytes = std::mem::size_of_val(data);
        call(|error| unsafe {
            let rank = shape.len() as c_int;
            ffi::graft_session_set_input(
                self.handle,
                0,
                ffi::GRAFT_FLOAT32,
                shape.as_ptr(),
                rank,
                data.as_ptr().cast(),
                bytes,
                error,
            )
        })?;
        let ended = call(|error| unsafe { ffi::graft_session_run(self.handle, error) })?;
        assert_eq!(ended, ffi::GRAFT_OK);
        unsafe {
            let output = ffi::graft_session_output(self.handle, 0);
            if ffi::graft_tensor_dtype(output) != ffi::GRAFT_FLOAT32 {
                return Err(Error {
                    code: "tensor.dtype".into(),
                    place: "output 0".into(),
                    detail: "it is not float32".into(),
                });
            }
            let count = ffi::graft_tensor_bytes(output) / std::mem::size_of::<f32>();
            let extents = std::slice::from_raw_parts(
                ffi::graft_tensor_shape(output),
                ffi::graft_tensor_rank(output) as usize,
            );
            // A slice of nothing still needs an address, which an empty tensor may lack.
            let numbers = if count == 0 {
                &[][..]
            } else {
                std::slice::from_raw_parts(ffi::graft_tensor_data(output) as *const f32, count)
            };
            Ok((extents, numbers))
        }
    }
}
impl Drop for Session {
    fn drop(&mut self) {
        unsafe { ffi::graft_session_free(self.handle) }
    }
}

/// Names what is in pictures.
pub struct Classifier {
    handle: *mut ffi::Classifier,
}
unsafe impl Send for Classifier {}

impl Classifier {
    pub fn new(model: &Model) -> Result<Classifier, Error> {
        let handle =
            call(|error| unsafe { ffi::graft_classifier_new(model.handle, ptr::null(), error) })?;
        Ok(Classifier { handle })
    }

    /// The `top` likeliest classes of a picture file with their probabilities, likeliest first.
    pub fn classify(&mut self, path: &str, top: i32) -> Result<Vec<(String, f64)>, Error> {
        let path = c_string(path)?;
        unsafe {
            let found = call(|error| {
                ffi::graft_classifier_classify_file(self.handle, path.as_ptr(), top, error)
            })?;
            let answers = (0..ffi::graft_predictions_size(found, 0))
                .map(|place| {
                    (
                        text(ffi::graft_predictions_label(found, 0, place)),
                        ffi::graft_predictions_probability(found, 0, place),
                    )
                })
                .collect();
            ffi::graft_predictions_free(found);
            Ok(answers)
        }
    }
}
impl Drop for Classifier {
    fn drop(&mut self) {
        unsafe { ffi::graft_classifier_free(self.handle) }
    }
}
