use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::shape::{Field, Shape, constants};

pub fn expand(name: &Ident, shape: &Shape) -> TokenStream {
    let text = name.to_string();
    let unknown = quote! {
        value => return Err(::xdr::DecodeError::UnknownDiscriminant {
            position: input.position(), type_name: #text, value
        }),
    };
    let body = match shape {
        Shape::Structure(fields) => {
            let reads = reads(fields);
            quote!(Self #reads)
        }
        Shape::Enumeration { arms, other } => {
            let constants = constants(arms);
            let variants = arms.iter().map(|arm| &arm.variant);
            let values = arms.iter().map(|arm| &arm.constant);
            let rest = match other {
                Some(variant) => quote!(value => Self::#variant(value),),
                None => unknown,
            };
            quote! {
                #constants
                let value = match input.peek_u32()? { #(#values => Self::#variants,)* #rest };
                input.u32()?;
                value
            }
        }
        Shape::Union { arms, default } => {
            let constants = constants(arms);
            let cases = arms.iter().map(|arm| {
                let (variant, constant, reads) = (&arm.variant, &arm.constant, reads(&arm.fields));
                quote!(#constant => { input.u32()?; Self::#variant #reads })
            });
            let rest = match default {
                Some(arm) if arm.fields.is_empty() => {
                    let variant = &arm.variant;
                    quote!(_ => { input.u32()?; Self::#variant })
                }
                // The first field is the discriminant, which is not yet consumed.
                Some(arm) => {
                    let (variant, reads) = (&arm.variant, reads(&arm.fields));
                    quote!(_ => Self::#variant #reads,)
                }
                None => unknown,
            };
            quote!(#constants match input.peek_u32()? { #(#cases)* #rest })
        }
    };
    quote! {
        #[automatically_derived]
        impl ::xdr::Decode for #name {
            #[allow(unused_variables)]
            fn decode(input: &mut ::xdr::Decoder) -> ::core::result::Result<Self, ::xdr::DecodeError> {
                ::core::result::Result::Ok({ #body })
            }
        }
    }
}

/// `{ member: read, … }`, evaluated in the order of declaration.
fn reads(fields: &[Field]) -> TokenStream {
    let values = fields.iter().map(|Field { member, list, .. }| {
        if *list {
            quote!(#member: ::xdr::list::decode(input)?)
        } else {
            quote!(#member: ::xdr::Decode::decode(input)?)
        }
    });
    quote!({ #(#values),* })
}
