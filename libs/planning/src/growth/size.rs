use minijinja::machinery::Span;

/// Lists and objects that a text may nest into each other. The engine shows and drops a value by recursion.
const MOST_LEVELS: u32 = 64;

/// Upper bound on the size of one value, or of all values of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Multiple of the size of all variables.
    factor: u64,
    /// In addition, in bytes.
    constant: u64,
    /// Lists and objects that the text nests around variables and constants.
    levels: u32,
    has_namespace: bool,
}

#[derive(Debug)]
pub(crate) struct UnboundedText {
    pub(crate) line: u32,
    pub(crate) advice: String,
}

impl Growth {
    pub(super) const NOTHING: Growth = Growth { factor: 0, constant: 0, levels: 0, has_namespace: false };
    pub(super) const VARIABLE: Growth = Growth { factor: 1, ..Growth::NOTHING };

    pub(super) fn constant(constant: u64) -> Growth {
        Growth { constant, ..Growth::NOTHING }
    }

    pub(crate) fn depends_on_variables(self) -> bool {
        self.factor > 0
    }

    /// `variables` is their size in bytes.
    pub(crate) fn bytes(self, variables: u64) -> u64 {
        self.factor.saturating_mul(variables).saturating_add(self.constant)
    }

    pub(super) fn and(self, other: Growth) -> Growth {
        Growth {
            factor: self.factor.saturating_add(other.factor),
            constant: self.constant.saturating_add(other.constant),
            ..self.joined(other)
        }
    }

    pub(super) fn or(self, other: Growth) -> Growth {
        Growth {
            factor: self.factor.max(other.factor),
            constant: self.constant.max(other.constant),
            ..self.joined(other)
        }
    }

    pub(super) fn times(self, number: u64) -> Growth {
        Growth {
            factor: self.factor.saturating_mul(number),
            constant: self.constant.saturating_mul(number),
            ..self
        }
    }

    /// Same nesting, with at most this size in bytes.
    pub(super) fn limited_to(self, constant: u64) -> Growth {
        Growth { factor: 0, constant, ..self }
    }

    pub(super) fn inside(self, levels: u32) -> Growth {
        Growth { levels: self.levels.saturating_add(levels), ..self }
    }

    pub(super) fn flat(self) -> Growth {
        Growth { levels: 0, has_namespace: false, ..self }
    }

    pub(super) fn with_namespace(self) -> Growth {
        Growth { has_namespace: true, ..self }
    }

    /// Member of a namespace, which never contains a namespace.
    pub(super) fn of_namespace(self) -> Growth {
        Growth { has_namespace: false, ..self }
    }

    pub(super) fn has_namespace(self) -> bool {
        self.has_namespace
    }

    /// Refuses a value that nests too many lists and objects.
    pub(super) fn checked(self, span: Span) -> Result<Growth, UnboundedText> {
        if self.levels > MOST_LEVELS {
            let advice = format!("at most {MOST_LEVELS} lists and objects can be nested into each other");
            return refused(span, advice);
        }
        Ok(self)
    }

    fn joined(self, other: Growth) -> Growth {
        Growth {
            levels: self.levels.max(other.levels),
            has_namespace: self.has_namespace || other.has_namespace,
            ..self
        }
    }
}

pub(super) fn refused<T>(span: Span, advice: impl Into<String>) -> Result<T, UnboundedText> {
    Err(UnboundedText { line: u32::from(span.start_line), advice: advice.into() })
}
