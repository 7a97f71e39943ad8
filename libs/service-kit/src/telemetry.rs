use std::io::IsTerminal;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, LogFormat};
use crate::line_rate::OfLibraries;
use crate::tls::install_crypto_provider;
use crate::{ServerUrl, log_filter, panics};

const EXPORT_LIMIT: Duration = Duration::from_secs(5);
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("log.level")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    #[error("otlp.endpoint")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[error("telemetry is already set up")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// When dropped, sends the remaining spans to the collector, for at most 5 s.
#[derive(Debug)]
#[must_use = "dropping this early loses spans"]
pub struct TelemetryGuard {
    provider: Option<SdkTracerProvider>,
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        let Some(provider) = &self.provider else { return };
        if let Err(error) = provider.shutdown_with_timeout(FLUSH_LIMIT) {
            tracing::warn!(%error, "cannot send the last spans to the collector; they are lost");
        }
    }
}

/// Sets up logs and traces, once per process.
pub fn init(service: &'static str, config: &Config) -> Result<TelemetryGuard, TelemetryError> {
    let provider = config.otlp.endpoint.as_ref().map(|endpoint| provider(service, endpoint)).transpose()?;
    let spans = provider.as_ref().map(|provider| spans(provider.tracer("tidings")));
    tracing_subscriber::registry()
        .with(log_filter::parse(&config.log.level)?)
        .with(OfLibraries::default())
        .with(lines(config.log.format))
        .with(spans)
        .try_init()?;
    panics::log();
    Ok(TelemetryGuard { provider })
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = fmt::layer().with_writer(std::io::stderr);
    match format {
        // Omit the current span, because the list of spans already includes it.
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
    }
}

fn spans<S>(tracer: SdkTracer) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false)
}

fn provider(service: &'static str, endpoint: &ServerUrl) -> Result<SdkTracerProvider, TelemetryError> {
    install_crypto_provider();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", endpoint.expose().trim_end_matches('/')))
        .with_timeout(EXPORT_LIMIT)
        .build()?;
    let resource = Resource::builder().with_service_name(service).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}
