//! Who may use the admin interface: whoever can read the token file, which is its owner's alone.
//!
//! So neither other users of the machine nor web pages in a browser on it get in.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use environment::Entropy;
use serde_json::json;

use crate::StartError;
use crate::data_folder::DataFolder;

/// The token of one start.
pub(crate) struct Door {
    token: String,
    file: PathBuf,
}

impl Door {
    /// Makes a new token and leaves it in the data folder.
    pub fn new(folder: &DataFolder, entropy: &dyn Entropy) -> Result<Door, StartError> {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        let token: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = folder.publish_token(&token).map_err(|cause| {
            StartError::Configuration(format!("cannot write the token of the admin interface: {cause}"))
        })?;
        Ok(Door { token, file })
    }

    /// Lets requests with `Authorization: Bearer TOKEN` through; others learn where the token is.
    pub async fn check(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
        let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if given.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|token| door.opens_with(token)) {
            return next.run(request).await;
        }
        let text = format!("the admin interface wants the token in {}", door.file.display());
        let body = Json(json!({ "error": text, "token_file": door.file }));
        // The body was not read, so the connection is of no further use: a client must not send its next request on it.
        (StatusCode::UNAUTHORIZED, [(CONNECTION, "close")], body).into_response()
    }

    /// Takes the same time wherever the tokens differ.
    fn opens_with(&self, token: &str) -> bool {
        let pairs = self.token.bytes().zip(token.bytes());
        token.len() == self.token.len() && pairs.fold(0, |differs, (a, b)| differs | a ^ b) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use environment::SystemEntropy;

    use super::*;

    #[test]
    fn only_the_token_in_the_private_file_opens() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataFolder::open(folder.path()).unwrap();
        let door = Door::new(&data, &SystemEntropy::new()).unwrap();
        let token = std::fs::read_to_string(&door.file).unwrap();
        assert_eq!(std::fs::metadata(&door.file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(door.file.is_absolute());
        assert!(door.opens_with(token.trim_end()));
        for wrong in ["", &token[..63], &token, &"0".repeat(64)] {
            assert!(!door.opens_with(wrong), "{wrong:?}");
        }
        let next = Door::new(&data, &SystemEntropy::new()).unwrap();
        assert!(!next.opens_with(token.trim_end()), "a token is of one start");
    }
}
