use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Error, Result};

use crate::shape::{Arm, Field, Shape, constants};

pub fn expand(name: &Ident, shape: &Shape) -> Result<TokenStream> {
    let (body, conversion) = match shape {
        Shape::Structure(fields) => {
            let (pattern, writes) = (pattern(fields), writes(fields));
            (quote!(let Self #pattern = self; #writes), None)
        }
        Shape::Enumeration { arms, other } => {
            let constants = constants(arms);
            let variants = arms.iter().map(|arm| &arm.variant);
            let values = arms.iter().map(|arm| &arm.constant);
            let other = other.as_ref().map(|variant| quote!(#name::#variant(value) => *value,));
            let conversion = quote! {
                #[automatically_derived]
                impl ::core::convert::From<&#name> for u32 {
                    fn from(value: &#name) -> u32 {
                        #constants
                        match value { #(#name::#variants => #values,)* #other }
                    }
                }

                #[automatically_derived]
                impl ::core::convert::From<#name> for u32 {
                    fn from(value: #name) -> u32 {
                        u32::from(&value)
                    }
                }
            };
            (quote!(out.put_u32(u32::from(self));), Some(conversion))
        }
        Shape::Union { arms, default } => {
            let constants = constants(arms);
            let cases = arms.iter().map(|arm| {
                let constant = &arm.constant;
                case(arm, quote!(out.put_u32(#constant);))
            });
            let default = match default {
                // The first field is the discriminant.
                Some(arm) if arm.fields.is_empty() => {
                    return Err(Error::new(
                        arm.variant.span(),
                        "xdr: to be encoded, the default needs the discriminant as its first field",
                    ));
                }
                Some(arm) => Some(case(arm, quote!())),
                None => None,
            };
            (quote!(#constants match self { #(#cases)* #default }), None)
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::xdr::Encode for #name {
            #[allow(unused_variables)]
            fn encode(&self, out: &mut ::xdr::Encoder) {
                #body
            }
        }

        #conversion
    })
}

fn case(arm: &Arm, before: TokenStream) -> TokenStream {
    let (variant, pattern, writes) = (&arm.variant, pattern(&arm.fields), writes(&arm.fields));
    quote!(Self::#variant #pattern => { #before #writes })
}

/// `{ member: binding, … }`, which fits named, numbered and absent fields alike.
fn pattern(fields: &[Field]) -> TokenStream {
    let (members, bindings) = (fields.iter().map(|f| &f.member), fields.iter().map(|f| &f.binding));
    quote!({ #(#members: #bindings),* })
}

fn writes(fields: &[Field]) -> TokenStream {
    fields
        .iter()
        .map(|Field { binding, list, .. }| {
            if *list {
                quote!(::xdr::list::encode(#binding, out);)
            } else {
                quote!(::xdr::Encode::encode(#binding, out);)
            }
        })
        .collect()
}
