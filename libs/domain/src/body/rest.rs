//! Members of an object beside those that it declares.

use std::marker::PhantomData;

use serde_json::{Value, json};

use super::{Described, Schemas};

/// The rule for members that an object does not declare.
pub trait Rest {
    fn add_to(schema: &mut Value, schemas: &mut Schemas);
}

/// Any members.
#[derive(Debug)]
pub struct AnyMembers;

/// Members whose values have the schema `S`.
#[derive(Debug)]
pub struct Each<S>(PhantomData<S>);

/// The members of `S`.
#[derive(Debug)]
pub struct MembersOf<S>(PhantomData<S>);

impl Rest for AnyMembers {
    fn add_to(schema: &mut Value, _: &mut Schemas) {
        schema["additionalProperties"] = json!({});
    }
}

impl<S: Described> Rest for Each<S> {
    fn add_to(schema: &mut Value, schemas: &mut Schemas) {
        schema["additionalProperties"] = S::schema(schemas);
    }
}

impl<S: Described> Rest for MembersOf<S> {
    fn add_to(schema: &mut Value, schemas: &mut Schemas) {
        let other = S::schema(schemas);
        let mut own = schema.take();
        let about = own.as_object_mut().and_then(|own| own.remove("description"));
        *schema = json!({"allOf": [other, own]});
        if let Some(about) = about {
            schema["description"] = about;
        }
    }
}
