//! The two unions of a compound, arguments and results, made from one table of operations.

/// Makes, from rows `Name = number, "RFC name", (Arguments) -> Result;`, the enumeration of operation numbers, the
/// union of arguments and the union of results.
macro_rules! operations {
    (
        $(#[$code_doc:meta])* $Code:ident, $(#[$arg_doc:meta])* $Arg:ident, $(#[$res_doc:meta])* $Res:ident;
        $($name:ident = $number:literal, $rfc:literal, ($($args:ty)?) -> $res:ty;)*
    ) => {
        $(#[$code_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ::xdr::Encode, ::xdr::Decode)]
        #[repr(u32)]
        pub enum $Code {
            $(#[doc = concat!("`", $rfc, "`.")] $name = $number,)*
        }

        impl $Code {
            /// Every operation, ascending.
            pub const ALL: &[$Code] = &[$($Code::$name,)*];

            /// The operation with this number.
            pub const fn from_number(number: u32) -> Option<$Code> {
                match number {
                    $($number => Some($Code::$name),)*
                    _ => None,
                }
            }

            /// The name in the RFC, without `OP_`.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Code::$name => $rfc,)*
                }
            }
        }

        impl ::std::fmt::Display for $Code {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }

        $(#[$arg_doc])*
        // Lives for the time of one operation; a box would cost more than the space it saves.
        #[allow(clippy::large_enum_variant)]
        #[derive(Debug, Clone, PartialEq, Eq, ::xdr::Encode, ::xdr::Decode)]
        pub enum $Arg {
            $(
                #[doc = concat!("`", $rfc, "`.")]
                #[xdr(discriminant = $number)]
                $name $(($args))?,
            )*
        }

        impl $Arg {
            /// Which operation it is.
            pub const fn op_code(&self) -> $Code {
                match self {
                    $($Arg::$name { .. } => $Code::$name,)*
                }
            }
        }

        $(#[$res_doc])*
        #[allow(clippy::large_enum_variant)]
        #[derive(Debug, Clone, PartialEq, Eq, ::xdr::Encode, ::xdr::Decode)]
        pub enum $Res {
            $(
                #[doc = concat!("`", $rfc, "`.")]
                #[xdr(discriminant = $number)]
                $name($res),
            )*
        }

        impl $Res {
            /// Which operation it is the result of.
            pub const fn op_code(&self) -> $Code {
                match self {
                    $($Res::$name { .. } => $Code::$name,)*
                }
            }

            /// How the operation ended.
            pub fn status(&self) -> $crate::NfsStatus {
                match self {
                    $($Res::$name(result) => $crate::OpResult::status(result),)*
                }
            }

            /// The result of an operation that failed with `error`, which is not `NFS4_OK`.
            pub fn failure(operation: $Code, error: $crate::NfsStatus) -> $Res {
                debug_assert!(!error.is_ok(), "a failure needs an error");
                match operation {
                    $($Code::$name => $Res::$name($crate::OpResult::from_error(error)),)*
                }
            }
        }
    };
}

pub(crate) use operations;
