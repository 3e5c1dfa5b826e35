//! What a type looks like on the wire, read from its declaration.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Expr, Fields, Index, Member, Result, Variant};

pub enum Shape {
    Structure(Vec<Field>),
    Enumeration {
        arms: Vec<Arm>,
        /// The variant that takes unknown values.
        other: Option<Ident>,
    },
    Union {
        arms: Vec<Arm>,
        default: Option<Arm>,
    },
}

pub struct Field {
    pub member: Member,
    /// The name it is bound to in patterns.
    pub binding: Ident,
    /// Linked list instead of counted array.
    pub list: bool,
}

pub struct Arm {
    pub variant: Ident,
    /// The name of the constant that holds the discriminant; unused in a default arm.
    pub constant: Ident,
    /// The discriminant as a `u32` expression.
    pub discriminant: TokenStream,
    pub fields: Vec<Field>,
}

/// What the `#[xdr(…)]` attributes of one variant or field say.
#[derive(Default)]
struct Options {
    discriminant: Option<Expr>,
    default: bool,
    other: bool,
    list: bool,
}

impl Shape {
    pub fn parse(input: &DeriveInput) -> Result<Shape> {
        if !input.generics.params.is_empty() {
            return Err(Error::new(input.generics.span(), "xdr: generic types are not supported"));
        }
        match &input.data {
            Data::Struct(data) => Ok(Shape::Structure(fields(&data.fields)?)),
            Data::Enum(data) => {
                let variants: Vec<(&Variant, Options)> = data
                    .variants
                    .iter()
                    .map(|variant| Ok((variant, Options::parse(&variant.attrs)?)))
                    .collect::<Result<_>>()?;
                if variants.is_empty() {
                    return Err(Error::new(input.ident.span(), "xdr: no variants"));
                }
                if variants.iter().any(|(_, options)| options.discriminant.is_some() || options.default) {
                    union(variants)
                } else {
                    enumeration(variants)
                }
            }
            Data::Union(_) => Err(Error::new(
                input.ident.span(),
                "xdr: write an XDR union as an enum with #[xdr(discriminant = …)]",
            )),
        }
    }
}

fn enumeration(variants: Vec<(&Variant, Options)>) -> Result<Shape> {
    let (mut arms, mut other) = (Vec::<Arm>::new(), None);
    for (index, (variant, options)) in variants.into_iter().enumerate() {
        if options.other {
            if other.is_some()
                || !matches!(&variant.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1)
            {
                return Err(Error::new(
                    variant.span(),
                    "xdr: only one #[xdr(other)], of the form `Name(u32)`",
                ));
            }
            other = Some(variant.ident.clone());
            continue;
        }
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(
                variant.span(),
                "xdr: a variant with fields needs #[xdr(discriminant = …)], #[xdr(default)] or #[xdr(other)]",
            ));
        }
        let discriminant = match (&variant.discriminant, arms.last()) {
            (Some((_, value)), _) => quote!((#value) as u32),
            (None, Some(previous)) => {
                let previous = &previous.constant;
                quote!(#previous + 1)
            }
            (None, None) => quote!(0),
        };
        arms.push(arm(index, variant, discriminant)?);
    }
    Ok(Shape::Enumeration { arms, other })
}

fn union(variants: Vec<(&Variant, Options)>) -> Result<Shape> {
    let (mut arms, mut default) = (Vec::new(), None);
    for (index, (variant, options)) in variants.into_iter().enumerate() {
        match options.discriminant {
            Some(value) if !options.default => arms.push(arm(index, variant, quote!((#value) as u32))?),
            None if options.default && default.is_none() => default = Some(arm(index, variant, quote!(0))?),
            _ => {
                return Err(Error::new(
                    variant.span(),
                    "xdr: each variant of a union needs #[xdr(discriminant = …)]; one may have #[xdr(default)] instead",
                ));
            }
        }
    }
    Ok(Shape::Union { arms, default })
}

fn arm(index: usize, variant: &Variant, discriminant: TokenStream) -> Result<Arm> {
    Ok(Arm {
        variant: variant.ident.clone(),
        constant: format_ident!("DISCRIMINANT_{index}"),
        discriminant,
        fields: fields(&variant.fields)?,
    })
}

fn fields(fields: &Fields) -> Result<Vec<Field>> {
    fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let options = Options::parse(&field.attrs)?;
            let member = match &field.ident {
                Some(name) => Member::Named(name.clone()),
                None => Member::Unnamed(Index { index: index as u32, span: Span::call_site() }),
            };
            Ok(Field { member, binding: format_ident!("field_{index}"), list: options.list })
        })
        .collect()
}

impl Options {
    fn parse(attributes: &[Attribute]) -> Result<Options> {
        let mut options = Options::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("xdr")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("discriminant") {
                    options.discriminant = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("default") {
                    options.default = true;
                } else if meta.path.is_ident("other") {
                    options.other = true;
                } else if meta.path.is_ident("list") {
                    options.list = true;
                } else {
                    return Err(meta.error("xdr: expected discriminant, default, other or list"));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// The constants that hold the discriminants of `arms`; constants so that decoding is one jump table.
pub fn constants(arms: &[Arm]) -> TokenStream {
    let (names, values) = (arms.iter().map(|arm| &arm.constant), arms.iter().map(|arm| &arm.discriminant));
    quote!(#(const #names: u32 = #values;)*)
}
