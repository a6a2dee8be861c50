//! What graft.h declares, as far as this example uses it.

use std::os::raw::{c_char, c_int, c_void};

pub const GRAFT_ABI_VERSION: c_int = 1;
pub const GRAFT_OK: c_int = 0;
pub const GRAFT_FLOAT32: c_int = 1;

/// Declares opaque handles.
macro_rules! handles {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
handles!(
    Error,
    Options,
    Model,
    Value,
    Session,
    Tensor,
    Classifier,
    Predictions
);

extern "C" {
    pub fn graft_abi_version() -> c_int;

    pub fn graft_error_code(error: *const Error) -> *const c_char;
    pub fn graft_error_where(error: *const Error) -> *const c_char;
    pub fn graft_error_detail(error: *const Error) -> *const c_char;
    pub fn graft_error_free(error: *mut Error);

    pub fn graft_model_load(
        path: *const c_char,
        options: *const Options,
        error: *mut *mut Error,
    ) -> *mut Model;
    pub fn graft_model_free(model: *mut Model);
    pub fn graft_model_input(model: *const Model, index: usize) -> *const Value;
    pub fn graft_value_name(value: *const Value) -> *const c_char;
    pub fn graft_value_rank(value: *const Value) -> c_int;
    pub fn graft_value_extent(value: *const Value, axis: c_int) -> i64;

    pub fn graft_session_new(
        model: *const Model,
        options: *const Options,
        error: *mut *mut Error,
    ) -> *mut Session;
    pub fn graft_session_free(session: *mut Session);
    pub fn graft_session_set_input(
        session: *mut Session,
        index: usize,
        dtype: c_int,
        shape: *const i64,
        rank: c_int,
        data: *const c_void,
        bytes: usize,
        error: *mut *mut Error,
    ) -> c_int;
    pub fn graft_session_run(session: *mut Session, error: *mut *mut Error) -> c_int;
    pub fn graft_session_output(session: *const Session, index: usize) -> *const Tensor;
    pub fn graft_tensor_dtype(tensor: *const Tensor) -> c_int;
    pub fn graft_tensor_rank(tensor: *const Tensor) -> c_int;
    pub fn graft_tensor_shape(tensor: *const Tensor) -> *const i64;
    pub fn graft_tensor_data(tensor: *const Tensor) -> *mut c_void;
    pub fn graft_tensor_bytes(tensor: *const Tensor) -> usize;

    pub fn graft_classifier_new(
        model: *const Model,
        options: *const Options,
        error: *mut *mut Error,
    ) -> *mut Classifier;
    pub fn graft_classifier_free(classifier: *mut Classifier);
    pub fn graft_classifier_classify_file(
        classifier: *mut Classifier,
        path: *const c_char,
        top: c_int,
        error: *mut *mut Error,
    ) -> *mut Predictions;
    pub fn graft_predictions_size(predictions: *const Predictions, picture: usize) -> usize;
    pub fn graft_predictions_label(
        predictions: *const Predictions,
        picture: usize,
        place: usize,
    ) -> *const c_char;
    pub fn graft_predictions_probability(
        predictions: *const Predictions,
        picture: usize,
        place: usize,
    ) -> f64;
    pub fn graft_predictions_free(predictions: *mut Predictions);
}
