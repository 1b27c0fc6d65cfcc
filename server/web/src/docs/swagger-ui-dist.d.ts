// Swagger UI's distribution has no types of its own.
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  interface Options {
    domNode: HTMLElement | null;
    url: string;
    deepLinking: boolean;
    validatorUrl: string | null;
  }
  export default function SwaggerUI(options: Options): unknown;
}
