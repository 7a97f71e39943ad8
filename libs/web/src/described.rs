//! Types that stand for schemas that do not come from utoipa: in the attributes of handlers, and in structs that derive `ToSchema`.

/// Declares a type for each schema. utoipa needs it for the name. The function `add` replaces its empty schema by the schema of
/// the described type.
#[macro_export]
macro_rules! described {
    ($($name:ident: $of:ty,)+) => {
        $(
            #[doc = concat!("Schema `", stringify!($name), "`.")]
            pub struct $name;

            impl utoipa::PartialSchema for $name {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    utoipa::openapi::Object::new().into()
                }
            }

            impl utoipa::ToSchema for $name {
                fn name() -> std::borrow::Cow<'static, str> {
                    std::borrow::Cow::Borrowed(stringify!($name))
                }
            }
        )+

        /// Adds the schemas, and those to which they refer.
        pub fn add(schemas: &mut domain::body::Schemas) {
            $(schemas.remove(stringify!($name));)+
            $(<$of as domain::body::Described>::schema(schemas);)+
        }
    };
}

described! {
    Problem: domain::Problem,
}
